#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "host/cri/stream/connection.h"
#include "lib/base/event_loop.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::cri::stream {

/// Serves clients on the socket that the daemon gives it, and asks the daemon what their tokens are good for. It goes
/// on with its sessions when the daemon has ended, and ends with the last one of them.
class Server {
public:
    static constexpr std::size_t most_connections = 512;
    static constexpr std::size_t most_strangers = 64;  ///< the oldest one gives way

    /// `daemon`: a SEQPACKET socket. Errors: those of epoll.
    static Result<std::unique_ptr<Server>> create(UniqueFd daemon);
    /// Until there is nothing left to do.
    Result<> run() { return loop_->run(); }

private:
    Server(std::unique_ptr<EventLoop> loop, UniqueFd daemon);
    void hear();
    void listen(UniqueFd socket);
    void watch_listener();
    void accept();
    void redeem(std::uint64_t key, Upgrade const& upgrade);
    void check_limits();
    void remove_done();

    std::unique_ptr<EventLoop> loop_;
    UniqueFd daemon_;
    UniqueFd listener_;
    EventLoop::Watch from_daemon_;
    EventLoop::Watch to_accept_;
    EventLoop::Timer timer_;
    std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;  // by age
    std::uint64_t next_ = 1;
};

}  // namespace triton::cri::stream
