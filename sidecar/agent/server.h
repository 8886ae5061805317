#pragma once

#include <memory>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/net/certificates.h"
#include "sidecar/agent/metrics.h"
#include "sidecar/agent/server_settings.h"
#include "sidecar/agent/service.h"
#include "sidecar/control/log.h"

namespace triton::agent {

/// HTTP/1.1 over TCP, or over TLS when there are certificates.
///
/// A connection costs a slot. One that says nothing, or says it slowly, gives its slot up when the time for that is
/// over, and earlier when all slots are taken and somebody new comes: the longest silent one first. TLS state is made
/// only once a peer has said something.
class Server {
public:
    struct Surroundings {
        boost::asio::io_context& io;
        Service& service;
        net::Certificates* certificates;  ///< null: no TLS
        AgentFigures& figures;
        sidecar::control::AgentLog& log;
    };

    Server(ServerSettings settings, Surroundings around);
    ~Server();
    Server(Server const&) = delete;
    Server& operator=(Server const&) = delete;

    /// Accepts from a listening TCP socket from now on. Errors: those of getsockname(2); EAFNOSUPPORT.
    Result<> listen(UniqueFd socket);

    /// Accepts no more, ends silent connections, and waits for answers that are under way, at most so long; then stops
    /// the io_context.
    void stop(Duration grace);

private:
    class Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace triton::agent
