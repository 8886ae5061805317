#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/json/reader.h"
#include "lib/net/http_server.h"
#include "lib/net/loop.h"

namespace triton::sidecar::control {

/// Calls the launcher by Varlink: JSON messages ended by NUL on Unix sockets, which are made when they are needed, and
/// again after they have ended (the launcher became another version).
///
/// Calls share one connection: they go out at once and are answered in order, so that one slow answer delays those
/// behind it, but nothing else here. Each stream has a connection of its own, and so has a call that may take long.
///
/// One I/O thread; every function is called in it.
/// Source: https://varlink.org, "Protocol".
class ControlClient {
public:
    /// The launcher is reached through the broker, else by the path; with neither, each call fails.
    /// `broker`: a SOCK_SEQPACKET socket. A connection is made by sending one end of a pair over it, with one byte.
    /// `ended`: called once, when the broker has ended: the launcher is gone. Never for a path.
    ControlClient(net::Loop& loop, UniqueFd broker, std::string path, std::function<void()> ended);
    ~ControlClient();
    ControlClient(ControlClient const&) = delete;
    ControlClient& operator=(ControlClient const&) = delete;

    [[nodiscard]] bool has_launcher() const;

    /// The `parameters` of each reply (objects): one, or with `more` as many as come.
    /// `parameters`: a JSON object. Errors: unavailable when the launcher cannot be reached, or the connection ended
    /// before the answer, or too many calls wait; timeout; unsupported when it has no such method; else internal
    /// with the error's name and its parameters.
    net::Task<Result<std::vector<json::Node>>> call(std::string method, std::string parameters, bool more,
                                                    Duration limit);

    /// The same on a connection of its own, for somebody who may give up: refused when he has gone, however the
    /// launcher goes on. For one reply.
    net::Task<Result<std::vector<json::Node>>> call_alone(std::string method, std::string parameters, Duration limit,
                                                          net::HttpCaller& asker);

    using OnReply = std::function<void(json::Node const&)>;

    /// Calls with "more" and gives each reply's `parameters` to `on_reply`, in the I/O thread, until there are no more:
    /// good when the launcher has ended it, else the errors of call(). There is no time limit.
    net::Task<Result<>> stream(std::string method, std::string parameters, OnReply on_reply);

    /// The same again whenever it ends, for as long as this object lives: soon when it had brought something, else
    /// later and later, up to 5 s. `on_end`: after each end; what the replies said may be stale now. Each time the
    /// launcher answers anew from the start, so of a method that tells the state first nothing is missed.
    void keep_streaming(std::string method, std::string parameters, OnReply on_reply,
                        std::function<void(Error const&)> on_end);

private:
    struct Call;
    struct Connection;
    struct CloseGuard;
    struct Shared;
    using CallPointer = std::shared_ptr<Call>;
    using ConnectionPointer = std::shared_ptr<Connection>;
    using SharedPointer = std::shared_ptr<Shared>;

    static net::Task<Result<std::vector<json::Node>>> ask_within(Duration limit, SharedPointer shared,
                                                                 ConnectionPointer connection, CallPointer call,
                                                                 std::string text);
    static net::Task<Result<>> ask(SharedPointer shared, ConnectionPointer connection, CallPointer call,
                                   std::string text);
    static net::Task<Result<>> stream_once(SharedPointer shared, std::string method, std::string parameters,
                                           OnReply on_reply);
    static net::Task<> stream_always(SharedPointer shared, std::string method, std::string parameters, OnReply on_reply,
                                     std::function<void(Error const&)> on_end);
    static net::Task<> read_replies(ConnectionPointer connection);
    static net::Task<> write_calls(ConnectionPointer connection);
    static net::Task<> watch_broker(SharedPointer shared);

    SharedPointer shared_;
};

}  // namespace triton::sidecar::control
