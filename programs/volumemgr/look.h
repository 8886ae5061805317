#pragma once

#include <functional>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/event_loop.h"

namespace triton::program {

/// A check of a file system by a worker. It may hang, because the disk does not answer. There is one check at a time.
/// `unanswered` is called when it takes longer than `patience`; its answer can still arrive later.
class Look {
public:
    Look(EventLoop& loop, std::function<void()> unanswered) : loop_(loop), patience_(loop, std::move(unanswered)) {}

    /// Returns whether the caller is to start the check: false while another one is under way.
    [[nodiscard]] bool begin() {
        if (std::exchange(is_under_way_, true)) return false;
        patience_.arm(loop_.now() + patience);
        return true;
    }
    void end() {
        is_under_way_ = false;
        patience_.disarm();
    }
    /// Whether a check is under way that is not late yet.
    [[nodiscard]] bool is_awaited() const { return patience_.is_armed(); }

    static constexpr milliseconds patience{5000};

private:
    EventLoop& loop_;
    EventLoop::Timer patience_;
    bool is_under_way_ = false;
};

}  // namespace triton::program
