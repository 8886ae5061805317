#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/unique_fd.h"

namespace triton::cri::stream {

/// Reads a descriptor that does not block: a pipe, a terminal or a socket.
class Source {
public:
    struct Events {
        std::function<void(std::string_view)> received;
        std::function<void()> ended;  ///< once; the Source may be destroyed in it
    };
    /// It is paused at first.
    Source(EventLoop& loop, UniqueFd fd, Events events);

    void resume();
    void pause() { watch_ = {}; }
    [[nodiscard]] bool is_open() const { return static_cast<bool>(fd_); }
    /// Passes on what is there, up to `most` bytes, and closes it. `ended` is not called.
    void drain(std::size_t most);
    void close();

private:
    void read();

    EventLoop& loop_;
    UniqueFd fd_;
    Events events_;
    EventLoop::Watch watch_;  // goes before its descriptor
};

/// Writes to a descriptor that does not block, and keeps what it does not take yet.
class Sink {
public:
    /// `changed`: less is pending, or it was closed by the peer.
    Sink(EventLoop& loop, UniqueFd fd, std::function<void()> changed);

    /// Bytes for a descriptor that was closed are thrown away.
    void write(std::string_view bytes);
    /// No more will come. A socket is shut down for writing, anything else is closed, after what is pending.
    void finish();
    [[nodiscard]] std::size_t pending() const { return pending_.size(); }
    [[nodiscard]] bool is_open() const { return static_cast<bool>(fd_); }
    [[nodiscard]] bool is_finished() const { return is_finishing_ && pending_.empty(); }
    /// When the descriptor has last taken something.
    [[nodiscard]] TimePoint progress() const { return progress_; }

    /// Now, with what is pending.
    void close();

private:
    void flush();

    EventLoop& loop_;
    UniqueFd fd_;
    std::function<void()> changed_;
    std::string pending_;
    bool is_finishing_ = false;
    TimePoint progress_;
    EventLoop::Watch watch_;
};

/// The same descriptor again, for a Source beside a Sink.
UniqueFd copy_of(UniqueFd const& fd);

}  // namespace triton::cri::stream
