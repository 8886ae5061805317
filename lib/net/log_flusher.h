#pragma once

#include <memory>

#include "lib/base/result.h"
#include "lib/log/log.h"
#include "lib/net/loop.h"

namespace triton::net {

/// Has a log written at once, and again as soon as a reader that was behind takes more. The log's console is watched by
/// an epoll of its own: Asio would set O_NONBLOCK on the open file, which others share.
class LogFlusher {
public:
    /// Both must outlive it. Errors: those of epoll_create1(2).
    static Result<LogFlusher> create(Loop& loop, log::Log& log);

private:
    struct State;
    explicit LogFlusher(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;
};

}  // namespace triton::net
