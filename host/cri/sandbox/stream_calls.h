#pragma once

#include <functional>
#include <memory>
#include <string>

#include "host/cri/images/workers.h"
#include "host/cri/sandbox/monitor_link.h"
#include "host/cri/tickets/stream_server.h"
#include "host/cri/wire/router.h"
#include "lib/base/result.h"
#include "lib/net/loop.h"

namespace triton::cri {

/// Exec, Attach and PortForward: each answers with a URL of the stream server. When its client comes, the monitor of
/// the pod gets one end of a socket with what the ticket says, and the stream server the other end.
class StreamCalls {
public:
    /// Where a session is to be.
    struct Target {
        std::shared_ptr<MonitorLink> link;
        std::string bundle = {};   ///< of a container
        std::string network = {};  ///< of a pod: path of its network namespace; empty: the host's
    };
    struct Surroundings {
        net::Loop& loop;
        std::function<void(std::function<void()>)> post;
        std::function<void(std::string const& warning)> warn;
        /// Errors: `not_found`; `refused`: it does not run.
        std::function<Result<Target>(std::string const& id)> container;
        std::function<Result<Target>(std::string const& id)> pod;
    };
    StreamCalls(StreamServer::Settings settings, Surroundings around);

    void add_to(Router& router);
    void start() { server_.start(); }

private:
    using CallPtr = std::shared_ptr<http::grpc::Call>;

    void open(Ticket const& ticket, StreamServer::Opened const& opened);
    void open_command(Ticket const& ticket, Target const& target, StreamServer::Opened const& opened);
    void ask_monitor(Ticket const& ticket, std::string const& text, StreamServer::Opened const& opened);
    Result<Target> find(Ticket const& ticket);
    template <class Response>
    void answer(CallPtr const& call, Result<> const& valid, Ticket ticket);

    Surroundings around_;
    StreamServer server_;
    std::uint64_t next_ = 1;
    Workers workers_;
};

}  // namespace triton::cri
