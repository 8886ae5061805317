#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/log/log.h"
#include "lib/net/loop.h"

namespace triton::agent {

/// Sends the messages that the launcher has for syslog daemons over networks, because PID 1 does not speak to any: by
/// UDP (RFC 5426), by TCP with the length before each message (RFC 6587, octet counting), and the same by TLS (RFC
/// 5425), where the daemon's certificate must be good for the address.
///
/// Each address has a queue with limits; what does not fit is dropped and counted. A connection that fails is tried
/// again with growing pauses. What was handed to the kernel in the first second of a connection, and of what came later
/// the last in a second, is kept and sent again when the connection breaks, more than once if need be: nobody
/// acknowledges it. Addresses that were not used for longest are forgotten when there are too many. The launcher is
/// told what is done, so that it can tell what was lost.
class SyslogForwarder {
public:
    struct Settings {
        UniqueFd messages;      ///< see SyslogRelay of the launcher
        UniqueFd answers;       ///< the same
        std::string authority;  ///< PEM, of the daemons by TLS; read anew for each connection
    };
    /// Opens what cannot be opened later. `log` outlives it. Errors: those of socket(2).
    static Result<std::unique_ptr<SyslogForwarder>> create(net::Loop& loop, log::Log& log, Settings settings);
    ~SyslogForwarder();
    SyslogForwarder(SyslogForwarder const&) = delete;
    SyslogForwarder& operator=(SyslogForwarder const&) = delete;

    void start();
    /// Takes what is there, and calls `finished` when all of it is sent or waits for a connection.
    void finish(std::function<void()> finished);

private:
    class State;
    explicit SyslogForwarder(std::shared_ptr<State> state);
    std::shared_ptr<State> state_;
};

}  // namespace triton::agent
