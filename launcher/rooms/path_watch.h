#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/event_loop.h"
#include "lib/base/path_watcher.h"

namespace triton::launcher {

/// A PathWatcher of a room, made when it is needed for the first time. An upgrade hands it over: closed by execve(2) it
/// would hold PID 1 up for 20 ms.
class PathWatch {
public:
    /// `has_events`: then there is something to take. The loop outlives this.
    PathWatch(EventLoop& loop, std::function<void()> has_events) : loop_(loop), has_events_(std::move(has_events)) {}

    /// Errors: those of PathWatcher; inotify instances and watches of a node may be used up.
    Result<> watch(std::vector<std::string> const& paths, PathWatcher::Writes writes = PathWatcher::Writes::closed) {
        if (!watcher_) watcher_ = TRY(PathWatcher::create());
        if (!watch_) watch_ = TRY(loop_.on_readable(watcher_->fd(), [this] { has_events_(); }));
        return watcher_->watch(paths, writes);
    }
    void forget() {
        if (watcher_) watcher_->forget();
    }

    // Once it is made.
    explicit operator bool() const { return watcher_.has_value(); }
    PathWatcher* operator->() { return &*watcher_; }

    // For an upgrade.
    [[nodiscard]] std::optional<PathWatcher::Handed> handed() const {
        return watcher_ ? std::optional(watcher_->handed()) : std::nullopt;
    }
    /// Events of before the first watch() are to be taken after it.
    void adopt(std::optional<PathWatcher::Handed> const& handed) {
        if (handed) watcher_ = PathWatcher::adopt(*handed);
    }

private:
    EventLoop& loop_;
    std::function<void()> has_events_;
    std::optional<PathWatcher> watcher_;
    EventLoop::Watch watch_;  // after what it watches, to be dropped before it
};

}  // namespace triton::launcher
