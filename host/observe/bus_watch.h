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

/// Hears by the system's bus what becomes of the machines' units. A connection that ends is a sign of loss; it is made
/// again as soon as that goes.
class BusWatch {
public:
    struct Notices {
        std::function<void(Uuid const& machine, std::string_view why)> machine;
        std::function<void(std::string_view why)> lost;
        std::function<void()> settled;  ///< once: it hears, or knows that it does not for now
        std::function<void()> heard;    ///< after some of the others
    };
    /// `chores`: where it may block; borrowed. Nothing is told once it is destroyed.
    BusWatch(net::Loop& loop, Worker& chores, Notices notices);
    ~BusWatch();
    BusWatch(BusWatch const&) = delete;
    BusWatch& operator=(BusWatch const&) = delete;

    void start();
    [[nodiscard]] bool is_connected() const;
    /// Why it is not; empty: it is, or nobody knows yet.
    [[nodiscard]] std::string const& trouble() const;
    [[nodiscard]] std::uint64_t unit_signals() const;
    [[nodiscard]] std::uint64_t machine_signals() const;
    [[nodiscard]] std::uint64_t losses() const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace triton::observe
