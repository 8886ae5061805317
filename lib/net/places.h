#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "lib/net/loop.h"

namespace triton::net {

/// So many may do something at the same time; the others wait, and the peers among them get places in turn.
class Places {
public:
    Places(Loop& loop, std::size_t count) : loop_(loop), free_(count) {}

    /// Held until it is destroyed. `places` must outlive it.
    class Place {
    public:
        explicit Place(Places& places) : places_(places) {}
        Place(Place const&) = delete;
        Place& operator=(Place const&) = delete;
        ~Place() { places_.give_back(); }

    private:
        Places& places_;
    };
    Task<std::unique_ptr<Place>> take(std::string peer);

private:
    void give_back();

    Loop& loop_;
    std::size_t free_;
    std::map<std::string, std::deque<std::shared_ptr<Condition>>> waiting_;  // of each peer; no empty queues
    std::string last_;                                                       // who got the latest place
};

}  // namespace triton::net
