#pragma once

#include <functional>
#include <optional>

#include <unistd.h>

#include "lib/base/event_loop.h"
#include "lib/log/log_output.h"

namespace triton::launcher {

/// The launcher's own standard output and error, shared by its log and by the lines of captured programs: one buffer
/// for each file behind them, so that no line is torn by a line of another writer.
class Console {
public:
    explicit Console(int out = STDOUT_FILENO, int err = STDERR_FILENO);
    Console(Console const&) = delete;
    Console& operator=(Console const&) = delete;

    [[nodiscard]] log::LogOutput& out() { return out_; }
    /// out() when both lead to the same file.
    [[nodiscard]] log::LogOutput& err() { return err_ ? *err_ : out_; }

    /// From now on `loop` (which outlives this) calls when a reader takes more; `on_room` is called after that was
    /// written. Nobody else may watch these descriptors in the same loop.
    void attach(EventLoop& loop, std::function<void()> on_room);

    /// Writes waiting data, as far as the readers take it, and watches those that are blocked.
    void flush();
    /// The same, and waits for slow readers, at most that long.
    void drain(milliseconds limit);
    /// Whether a reader is blocked: writing continues by itself.
    [[nodiscard]] bool is_blocked() const { return out_.is_blocked() || (err_ && err_->is_blocked()); }
    /// Something is not written yet.
    [[nodiscard]] bool has_pending() const { return out_.has_pending() || (err_ && err_->has_pending()); }
    /// Data waits for something that no descriptor signals: a disk was full. Call flush() again after a moment.
    [[nodiscard]] bool needs_retry() const;

private:
    void watch_blocked(log::LogOutput const& output, EventLoop::Watch& watch);
    void room();

    log::LogOutput out_;
    std::optional<log::LogOutput> err_;
    EventLoop* loop_ = nullptr;
    std::function<void()> on_room_;
    EventLoop::Watch out_watch_;
    EventLoop::Watch err_watch_;
};

}  // namespace triton::launcher
