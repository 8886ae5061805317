#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "host/info/agenda.h"
#include "host/observe/worker.h"
#include "lib/base/uuid.h"
#include "lib/net/loop.h"

namespace triton::observe {

/// Learns from the system's bus what happens to the machines' units. When a connection ends, signals may have been
/// lost; it is made again as soon as possible.
class BusWatch {
public:
    struct Notices {
        std::function<void(Uuid const& machine, std::string_view why)> machine;
        std::function<void(std::string_view why)> lost;
        std::function<void()> settled;  ///< once: it listens, or knows that it cannot for now
        std::function<void()> heard;    ///< after some of the others
    };
    /// `chores`: a thread that may block; borrowed. No notices come after destruction.
    BusWatch(net::Loop& loop, Worker& chores, Notices notices);
    ~BusWatch();
    BusWatch(BusWatch const&) = delete;
    BusWatch& operator=(BusWatch const&) = delete;

    void start();
    [[nodiscard]] bool is_connected() const;
    /// Why it does not listen; empty: it does, or that is not known yet.
    [[nodiscard]] std::string const& trouble() const;
    [[nodiscard]] std::uint64_t unit_signals() const;
    [[nodiscard]] std::uint64_t machine_signals() const;
    [[nodiscard]] std::uint64_t losses() const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace triton::observe
