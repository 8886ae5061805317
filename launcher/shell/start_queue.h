#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/supervisor/policy.h"
#include "lib/base/clock.h"
#include "lib/base/event_loop.h"

namespace triton::launcher {

/// Starts that wait for the next round of the loop. A start takes 30 microseconds or, with 20,000 arguments, 5 ms,
/// and the writer of the configuration decides how many there are. In between ends are seen, requests answered and
/// signals taken.
class StartQueue {
public:
    /// The usual thousand processes are started in one round.
    static constexpr Duration time_per_round = milliseconds(50);

    /// `go_on`: called in a later round, as long as some wait. The loop outlives this.
    StartQueue(EventLoop& loop, std::function<void()> go_on) : timer_(loop, std::move(go_on)) {}

    /// Whether one more may be started in this round.
    [[nodiscard]] bool may_start() {
        TimePoint const now = steady_now();
        if (!began_) began_ = now;
        return now - *began_ < time_per_round;
    }
    /// Throws bad_alloc.
    void add(ProcessId id) {
        waiting_.push_back(id);
        go_on_soon();
    }
    [[nodiscard]] std::optional<ProcessId> next() const {
        return next_ < waiting_.size() ? std::optional(waiting_[next_]) : std::nullopt;
    }
    void remove_next() {
        if (++next_ < waiting_.size()) return;
        waiting_.clear();
        next_ = 0;
        timer_.disarm();
    }
    void go_on_soon() { timer_.arm(steady_now()); }
    void end_round() { began_.reset(); }
    void reserve(std::size_t count) { waiting_.reserve(waiting_.size() + count); }

private:
    EventLoop::Timer timer_;
    std::vector<ProcessId> waiting_;
    std::size_t next_ = 0;            // of them
    std::optional<TimePoint> began_;  // of the first start of this round
};

}  // namespace triton::launcher
