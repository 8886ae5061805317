#include "sidecar/control/control_client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>

#include <sys/socket.h>
#include <sys/un.h>

#include "lib/net/transport.h"
#include "lib/varlink/codec.h"
#include "sidecar/control/control_reply.h"

namespace triton::sidecar::control {

using net::Task;

namespace {

constexpr std::size_t most_replies = 4096;  // to one call
constexpr std::size_t most_calls = 64;      // at the same time
constexpr Duration shortest_pause = std::chrono::milliseconds(10);
constexpr Duration longest_pause = std::chrono::seconds(5);

std::unexpected<Error> lost() { return fail(ErrorKind::unavailable, "the connection to the launcher has ended"); }

std::unexpected<Error> lost(std::string_view where, std::string why) {
    return fail(ErrorKind::unavailable, "reach the launcher" + std::string(where), std::move(why));
}

/// Sends a descriptor with one byte. Returns 0 or an errno; never waits.
int send_descriptor(int socket, int fd) {
    char byte = 0;
    iovec content{&byte, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fd)> control{};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

/// Whether a socket has nothing more to read and has ended.
bool has_ended(int socket) {
    char byte = 0;
    ssize_t const size = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace

/// A call. It lives until its last reply has come, even if its caller has gone, because replies come in the order of
/// the calls.
struct ControlClient::Call {
    Call(net::Loop& loop, OnReply each) : done(loop), on_reply(std::move(each)) {}

    net::Condition done;  // notified when there is a result
    OnReply on_reply;     // empty: the replies are kept
    std::vector<json::Node> replies;
    std::optional<Result<>> result;

    void take(json::Node reply) {
        if (result) return;
        if (on_reply) return on_reply(reply);
        if (replies.size() < most_replies) replies.push_back(std::move(reply));
    }
    void finish(Result<> with) {
        if (result) return;
        result = std::move(with);
        done.notify_all();
    }
};

struct ControlClient::Connection {
    explicit Connection(std::unique_ptr<net::Transport> by) : transport(std::move(by)) {}

    std::unique_ptr<net::Transport> transport;
    std::deque<CallPointer> calls;  // in the order of the expected replies
    std::string waiting;            // not written yet
    bool is_writing = false;
    bool is_open = true;

    void close() {
        is_open = false;
        transport->close();
        auto const left = std::exchange(calls, {});
        for (auto const& call : left)
            call->finish(lost());
    }

    /// Returns whether the reply can be understood.
    bool take(std::string_view frame) {
        if (calls.empty()) return false;
        auto const call = calls.front();
        auto reply = parse_control_reply(frame);
        if (!reply) {
            calls.pop_front();
            call->finish(std::unexpected(std::move(reply).error()));
            return true;
        }
        call->take(std::move(reply->parameters));
        if (reply->continues || calls.empty()) return is_open;  // not open: the callback has closed it
        calls.pop_front();
        call->finish({});
        return true;
    }
};

/// Ends a connection, whatever ends reading, writing or a stream (a lack of memory, too): those who wait on it learn of
/// it.
struct ControlClient::CloseGuard {
    ConnectionPointer connection;
    ~CloseGuard() {
        if (connection) connection->close();
    }
};

/// The part of a client that lives as long as one of its coroutines.
struct ControlClient::Shared {
    Shared(net::Loop& with, UniqueFd fd, std::string to, std::function<void()> call)
        : loop(with),
          broker(loop, std::move(fd)),
          path(std::move(to)),
          is_configured(broker.is_open() || !path.empty()),
          ended(std::move(call)) {}

    net::Loop& loop;
    net::Descriptor broker;
    std::string path;
    bool is_configured;
    std::function<void()> ended;
    ConnectionPointer for_calls;
    std::vector<std::weak_ptr<Connection>> connections;  // all that exist
    bool is_closed = false;

    void close() {
        is_closed = true;
        broker.close();
        for (auto const& one : std::exchange(connections, {})) {
            if (auto const connection = one.lock()) connection->close();
        }
    }

    Result<ConnectionPointer> connect() {
        if (is_closed || !is_configured) return lost();
        UniqueFd socket = TRY(broker.is_open() ? connect_by_broker() : connect_by_path());
        auto fresh = std::make_shared<Connection>(TRY(net::Transport::adopt(loop, std::move(socket))));
        std::erase_if(connections, [](auto const& one) { return one.expired(); });
        connections.push_back(fresh);
        net::spawn(loop, read_replies(fresh));
        return fresh;
    }

    /// The connection that calls share.
    Result<ConnectionPointer> connection() {
        // The launcher may have become another version, and we may not have read the end of this connection yet.
        if (for_calls && for_calls->is_open && has_ended(for_calls->transport->fd())) for_calls->close();
        if (!for_calls || !for_calls->is_open) for_calls = TRY(connect());
        return for_calls;
    }

private:
    Result<UniqueFd> connect_by_broker() {
        std::array<int, 2> pair{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()) != 0)
            return lost("", errno_text(errno));
        UniqueFd ours{pair[0]};
        UniqueFd const theirs{pair[1]};
        if (int const err = send_descriptor(broker.fd(), theirs.get()); err != 0) return lost("", errno_text(err));
        return ours;
    }

    /// Connects to the Unix socket. This never takes long: it either succeeds, or fails because the queue is full.
    Result<UniqueFd> connect_by_path() const {
        std::string const where = " at " + path;
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        if (path.size() >= sizeof address.sun_path) return lost(where, errno_text(ENAMETOOLONG));
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        UniqueFd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
        bool const is_connected =
            socket && ::connect(socket.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0;
        if (!is_connected) return lost(where, errno_text(errno));
        return socket;
    }
};

ControlClient::ControlClient(net::Loop& loop, UniqueFd broker, std::string path, std::function<void()> ended)
    : shared_(std::make_shared<Shared>(loop, std::move(broker), std::move(path), std::move(ended))) {
    if (shared_->broker.is_open()) net::spawn(loop, watch_broker(shared_));
}

ControlClient::~ControlClient() { shared_->close(); }

bool ControlClient::has_launcher() const { return shared_->is_configured; }

Task<Result<std::vector<json::Node>>> ControlClient::call(std::string method, std::string parameters, bool more,
                                                          Duration limit) {
    auto reached = shared_->connection();
    if (!reached) co_return std::unexpected(std::move(reached).error());
    if ((*reached)->calls.size() >= most_calls)
        co_return fail(ErrorKind::unavailable,
                       "the launcher is behind: " + std::to_string(most_calls) + " calls wait already");
    auto const call = std::make_shared<Call>(shared_->loop, OnReply());
    co_return co_await ask_within(limit, shared_, std::move(*reached), call,
                                  varlink::call_text(method, parameters, more));
}

Task<Result<std::vector<json::Node>>> ControlClient::call_alone(std::string method, std::string parameters,
                                                                Duration limit, net::HttpCaller& asker) {
    auto const nobody_waits = [] { return fail(ErrorKind::refused, "nobody waits for it any longer"); };
    if (asker.has_gone()) co_return nobody_waits();
    auto reached = shared_->connect();
    if (!reached) co_return std::unexpected(std::move(reached).error());
    CloseGuard const guard{*reached};
    auto const call = std::make_shared<Call>(shared_->loop, OnReply());
    asker.when_gone([call, nobody_waits] { call->finish(nobody_waits()); });
    auto replies = co_await ask_within(limit, shared_, *reached, call, varlink::call_text(method, parameters, false));
    asker.when_gone({});
    co_return replies;
}

Task<Result<std::vector<json::Node>>> ControlClient::ask_within(Duration limit, SharedPointer shared,
                                                                ConnectionPointer connection, CallPointer call,
                                                                std::string text) {
    net::Timer late(shared->loop);
    late.call_at(std::chrono::steady_clock::now() + limit,
                 [call] { call->finish(fail(ErrorKind::timeout, "the launcher has not answered in time")); });
    auto const done = co_await ask(shared, std::move(connection), call, std::move(text));
    if (!done) co_return std::unexpected(done.error());
    co_return std::move(call->replies);
}

Task<Result<>> ControlClient::ask(SharedPointer shared, ConnectionPointer connection, CallPointer call,
                                  std::string text) {
    connection->calls.push_back(call);
    connection->waiting += text;
    if (!std::exchange(connection->is_writing, true)) net::spawn(shared->loop, write_calls(connection));
    if (!call->result) co_await call->done.wait();
    co_return *call->result;
}

Task<Result<>> ControlClient::stream(std::string method, std::string parameters, OnReply on_reply) {
    return stream_once(shared_, std::move(method), std::move(parameters), std::move(on_reply));
}

Task<Result<>> ControlClient::stream_once(SharedPointer shared, std::string method, std::string parameters,
                                          OnReply on_reply) {
    auto reached = shared->connect();
    if (!reached) co_return std::unexpected(std::move(reached).error());
    CloseGuard const guard{*reached};
    auto const call = std::make_shared<Call>(shared->loop, std::move(on_reply));
    co_return co_await ask(shared, *reached, call, varlink::call_text(method, parameters, true));
}

void ControlClient::keep_streaming(std::string method, std::string parameters, OnReply on_reply,
                                   std::function<void(Error const&)> on_end) {
    net::spawn(shared_->loop, stream_always(shared_, std::move(method), std::move(parameters), std::move(on_reply),
                                            std::move(on_end)));
}

Task<> ControlClient::stream_always(SharedPointer shared, std::string method, std::string parameters, OnReply on_reply,
                                    std::function<void(Error const&)> on_end) {
    Duration pause = shortest_pause;
    while (!shared->is_closed) {
        bool has_brought = false;
        OnReply const note = [&has_brought, &on_reply](json::Node const& reply) {
            has_brought = true;
            on_reply(reply);
        };
        auto const done = co_await stream_once(shared, method, parameters, note);
        if (shared->is_closed) co_return;
        on_end(done ? Error{ErrorKind::unavailable, {}, "the launcher has ended it", {}, 0} : done.error());
        pause = has_brought ? shortest_pause : std::min(2 * pause, longest_pause);
        co_await net::sleep_for(shared->loop, pause);
    }
}

Task<> ControlClient::write_calls(ConnectionPointer connection) {
    CloseGuard guard{connection};
    while (!connection->waiting.empty()) {
        std::string const text = std::exchange(connection->waiting, {});
        if (!co_await connection->transport->write(text)) co_return;
    }
    connection->is_writing = false;
    guard.connection.reset();
}

Task<> ControlClient::read_replies(ConnectionPointer connection) {
    CloseGuard const guard{connection};
    std::string text;
    std::array<char, 4096> piece;
    for (;;) {
        std::size_t const size = co_await connection->transport->read_some(piece);
        if (size == 0 || text.size() + size > longest_control_reply) co_return;
        std::string_view rest(piece.data(), size);
        for (std::size_t end = rest.find('\0'); end != rest.npos; end = rest.find('\0')) {
            text.append(rest.substr(0, end));
            rest.remove_prefix(end + 1);
            std::string const frame = std::exchange(text, {});
            if (!connection->take(frame)) co_return;
        }
        text.append(rest);
    }
}

/// Waits for the end of the broker's socket; nothing else ever comes from it.
Task<> ControlClient::watch_broker(SharedPointer shared) {
    std::array<char, 64> dropped;
    for (;;) {
        bool const is_open = co_await shared->broker.wait_readable();
        if (shared->is_closed) co_return;
        ssize_t const size = is_open ? ::recv(shared->broker.fd(), dropped.data(), dropped.size(), MSG_DONTWAIT) : 0;
        if (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR))) continue;
        auto const ended = shared->ended;
        shared->close();
        co_return ended();
    }
}

}  // namespace triton::sidecar::control
