#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <poll.h>

namespace triton::cri::monitor {

/// Descriptors that one poll(2) waits for, each with its call. It is filled again for each round, so nothing has to be
/// taken out of it when a descriptor is closed.
class PollSet {
public:
    /// Empties it, and keeps its memory.
    void clear() {
        polled_.clear();
        calls_.clear();
    }
    /// `fd` is borrowed until the end of wait(). `call` runs when one of `events` has come, or an error.
    void add(int fd, short events, std::function<void()> call) {
        polled_.push_back({.fd = fd, .events = events, .revents = 0});
        calls_.push_back(std::move(call));
    }
    /// Calls in the order of add(). A call must look up what it works on by a key: those before it may have removed it.
    /// `timeout` as of poll(2). Returns whether there was something.
    bool wait(int timeout) {
        if (::poll(polled_.data(), polled_.size(), timeout) <= 0) return false;
        for (std::size_t i = 0; i < polled_.size(); ++i)
            if (polled_[i].revents != 0) calls_[i]();
        return true;
    }

private:
    std::vector<pollfd> polled_;
    std::vector<std::function<void()>> calls_;
};

}  // namespace triton::cri::monitor
