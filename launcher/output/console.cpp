#include "launcher/output/console.h"

#include <algorithm>
#include <array>

#include <poll.h>
#include <sys/stat.h>

namespace triton::launcher {

namespace {

bool is_same_file(int one, int other) {
    struct stat first;
    struct stat second;
    return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

}  // namespace

Console::Console(int out, int err) : out_(out) {
    if (!is_same_file(out, err)) err_.emplace(err);
}

void Console::attach(EventLoop& loop, std::function<void()> on_room) {
    loop_ = &loop;
    on_room_ = std::move(on_room);
    flush();
}

void Console::watch_blocked(log::LogOutput const& output, EventLoop::Watch& watch) {
    if (!output.is_blocked() || watch || !loop_) return;
    // Fails for kinds of files that are always writable; those are never blocked.
    if (auto made = loop_->on_writable(output.fd(), [this] { room(); })) watch = std::move(*made);
}

void Console::flush() {
    out_.flush();
    watch_blocked(out_, out_watch_);
    if (!err_) return;
    err_->flush();
    watch_blocked(*err_, err_watch_);
}

/// Called when an output has room. A watch ends only here: so on_room_ is called even if another flush() was the one
/// that made room.
void Console::room() {
    flush();
    if (!out_.is_blocked()) out_watch_ = {};
    if (err_ && !err_->is_blocked()) err_watch_ = {};
    if (on_room_) on_room_();
}

void Console::drain(milliseconds limit) {
    auto const deadline = std::chrono::steady_clock::now() + limit;
    flush();
    while (is_blocked()) {
        std::array<pollfd, 2> ready{{{out_.is_blocked() ? out_.fd() : -1, POLLOUT, 0},
                                     {err_ && err_->is_blocked() ? err_->fd() : -1, POLLOUT, 0}}};
        auto const left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0 || ::poll(ready.data(), ready.size(), static_cast<int>(left.count())) <= 0) return;
        flush();
    }
}

bool Console::needs_retry() const {
    auto const waits = [](log::LogOutput const& output) { return output.has_pending() && !output.is_blocked(); };
    return waits(out_) || (err_ && waits(*err_));
}

}  // namespace triton::launcher
