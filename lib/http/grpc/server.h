#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/http/grpc/call.h"
#include "lib/http/grpc/server_session.h"
#include "lib/log/log.h"
#include "lib/net/loop.h"

namespace triton::http::grpc {

struct ServerLimits {
    SessionLimits session;
    std::size_t connections = 64;                ///< one without a call gives way to a new one
    Duration answer = std::chrono::seconds(30);  ///< for the kernel to take bytes of an answer
};

/// gRPC over HTTP/2 without TLS, on listening Unix sockets. What a connection is allowed is in SessionLimits.
class Server {
public:
    struct Surroundings {
        net::Loop& loop;
        /// Gets each call, in the loop's thread. It must return soon: what may block belongs into other threads.
        std::function<void(std::shared_ptr<Call>)> serve;
        log::Log& log;
    };

    Server(ServerLimits const& limits, Surroundings around);
    ~Server();
    Server(Server const&) = delete;
    Server& operator=(Server const&) = delete;

    /// Accepts from a listening socket from now on.
    void listen(UniqueFd socket);

    /// Accepts no more connections and calls, and calls `stopped` when all that are open have been answered.
    void stop(std::function<void()> stopped);

    [[nodiscard]] std::size_t open_connections() const;

private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace triton::http::grpc
