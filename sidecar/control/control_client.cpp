#include "sidecar/control/control_client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/varlink/codec.h"
#include "sidecar/control/control_reply.h"

namespace triton::sidecar::control {

namespace asio = boost::asio;
using asio::awaitable;
using asio::local::stream_protocol;
using boost::system::error_code;

namespace {

constexpr std::size_t most_replies = 4096;  // to one call
constexpr std::size_t most_calls = 64;      // at once
constexpr Duration shortest_pause = std::chrono::milliseconds(10);
constexpr Duration longest_pause = std::chrono::seconds(5);

std::unexpected<Error> lost() { return fail(ENOTCONN, "reach the launcher"); }

std::unexpected<Error> lost(std::string_view where, int err) {
    return fail(ENOTCONN, "reach the launcher" + std::string(where) + " (" + errno_text(err) + ")");
}

auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

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

/// Whether a socket brings nothing more, by now.
bool has_ended(int socket) {
    char byte = 0;
    ssize_t const size = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace

/// Lives until its last reply has come, even when whoever called has gone: the order of replies needs it.
struct ControlClient::Call {
    Call(asio::io_context& io, OnReply each) : done(io, TimePoint::max()), on_reply(std::move(each)) {}

    asio::steady_timer done;  // cancelled when there is a result
    OnReply on_reply;         // empty: they are kept
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
        done.cancel();
    }
};

struct ControlClient::Connection {
    explicit Connection(asio::io_context& io) : socket(io) {}

    stream_protocol::socket socket;
    std::deque<CallPointer> calls;  // in the order of the replies that are to come
    std::string waiting;            // to be written
    bool is_writing = false;
    bool is_open = true;

    void close() {
        is_open = false;
        error_code ignored;
        socket.close(ignored);
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
        if (reply->continues || calls.empty()) return is_open;  // not open: who was told of the reply has closed it
        calls.pop_front();
        call->finish({});
        return true;
    }
};

/// However reading, writing or a stream ends, out of memory too, those who wait on the connection learn of it.
struct ControlClient::CloseGuard {
    ConnectionPointer connection;
    ~CloseGuard() {
        if (connection) connection->close();
    }
};

/// What outlives the client while a coroutine of it is under way.
struct ControlClient::Shared {
    Shared(asio::io_context& context, UniqueFd fd, std::string to, std::function<void()> call)
        : io(context),
          broker(context),
          path(std::move(to)),
          is_configured(fd || !path.empty()),
          ended(std::move(call)) {
        if (fd) broker.assign(fd.release());
    }

    asio::io_context& io;
    asio::posix::stream_descriptor broker;
    std::string path;
    bool is_configured;
    std::function<void()> ended;
    ConnectionPointer for_calls;
    std::vector<std::weak_ptr<Connection>> connections;  // all of them
    bool is_closed = false;

    void close() {
        is_closed = true;
        error_code ignored;
        broker.close(ignored);
        for (auto const& one : std::exchange(connections, {})) {
            if (auto const connection = one.lock()) connection->close();
        }
    }

    Result<ConnectionPointer> connect() {
        if (is_closed || !is_configured) return lost();
        auto fresh = std::make_shared<Connection>(io);
        TRY(broker.is_open() ? connect_by_broker(fresh->socket) : connect_by_path(fresh->socket));
        std::erase_if(connections, [](auto const& one) { return one.expired(); });
        connections.push_back(fresh);
        asio::co_spawn(io, read_replies(fresh), asio::detached);
        return fresh;
    }

    /// The one that calls share.
    Result<ConnectionPointer> connection() {
        // The launcher may have become another version without our having read the end of this yet.
        if (for_calls && for_calls->is_open && has_ended(for_calls->socket.native_handle())) for_calls->close();
        if (!for_calls || !for_calls->is_open) for_calls = TRY(connect());
        return for_calls;
    }

private:
    Result<> connect_by_broker(stream_protocol::socket& socket) {
        std::array<int, 2> pair{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair.data()) != 0)
            return lost("", errno);
        UniqueFd ours{pair[0]};
        UniqueFd const theirs{pair[1]};
        if (int const err = send_descriptor(broker.native_handle(), theirs.get()); err != 0) return lost("", err);
        error_code failed;
        socket.assign(stream_protocol(), ours.get(), failed);
        if (failed) return lost("", failed.value());
        (void)ours.release();
        return {};
    }

    Result<> connect_by_path(stream_protocol::socket& socket) const {
        if (path.size() >= sizeof(sockaddr_un::sun_path)) return fail(ENAMETOOLONG, "reach the launcher at " + path);
        error_code failed;
        // To a Unix socket this never takes long: it succeeds, or the queue is full and it fails.
        socket.open(stream_protocol(), failed);
        if (!failed) socket.non_blocking(true, failed);
        if (!failed) socket.connect(stream_protocol::endpoint(path), failed);
        if (failed) return lost(" at " + path, failed.value());
        return {};
    }
};

ControlClient::ControlClient(asio::io_context& io, UniqueFd broker, std::string path, std::function<void()> ended)
    : shared_(std::make_shared<Shared>(io, std::move(broker), std::move(path), std::move(ended))) {
    if (shared_->broker.is_open()) asio::co_spawn(io, watch_broker(shared_), asio::detached);
}

ControlClient::~ControlClient() { shared_->close(); }

bool ControlClient::has_launcher() const { return shared_->is_configured; }

awaitable<Result<std::vector<json::Node>>> ControlClient::call(std::string method, std::string parameters, bool more,
                                                               Duration limit) {
    auto reached = shared_->connection();
    if (!reached) co_return std::unexpected(std::move(reached).error());
    if ((*reached)->calls.size() >= most_calls) co_return fail(EAGAIN, "ask the launcher, which is behind");
    auto const call = std::make_shared<Call>(shared_->io, OnReply());
    call->done.expires_after(limit);
    auto const done = co_await ask(shared_, std::move(*reached), call, varlink::call_text(method, parameters, more));
    if (!done) co_return std::unexpected(done.error());
    co_return std::move(call->replies);
}

awaitable<Result<>> ControlClient::ask(SharedPointer shared, ConnectionPointer connection, CallPointer call,
                                       std::string text) {
    connection->calls.push_back(call);
    connection->waiting += text;
    if (!std::exchange(connection->is_writing, true))
        asio::co_spawn(shared->io, write_calls(connection), asio::detached);
    error_code ignored;
    if (!call->result) co_await call->done.async_wait(into(ignored));
    call->finish(fail(ETIMEDOUT, "get an answer from the launcher"));
    co_return *call->result;
}

awaitable<Result<>> ControlClient::stream(std::string method, std::string parameters, OnReply on_reply) {
    return stream_once(shared_, std::move(method), std::move(parameters), std::move(on_reply));
}

awaitable<Result<>> ControlClient::stream_once(SharedPointer shared, std::string method, std::string parameters,
                                               OnReply on_reply) {
    auto reached = shared->connect();
    if (!reached) co_return std::unexpected(std::move(reached).error());
    CloseGuard const guard{*reached};
    auto const call = std::make_shared<Call>(shared->io, std::move(on_reply));
    co_return co_await ask(shared, *reached, call, varlink::call_text(method, parameters, true));
}

void ControlClient::keep_streaming(std::string method, std::string parameters, OnReply on_reply,
                                   std::function<void(Error const&)> on_end) {
    asio::co_spawn(
        shared_->io,
        stream_always(shared_, std::move(method), std::move(parameters), std::move(on_reply), std::move(on_end)),
        asio::detached);
}

awaitable<void> ControlClient::stream_always(SharedPointer shared, std::string method, std::string parameters,
                                             OnReply on_reply, std::function<void(Error const&)> on_end) {
    asio::steady_timer timer(shared->io);
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
        timer.expires_after(pause);
        error_code ignored;
        co_await timer.async_wait(into(ignored));
    }
}

awaitable<void> ControlClient::write_calls(ConnectionPointer connection) {
    CloseGuard guard{connection};
    while (!connection->waiting.empty()) {
        std::string const text = std::exchange(connection->waiting, {});
        error_code failed;
        co_await asio::async_write(connection->socket, asio::buffer(text), into(failed));
        if (failed) co_return;
    }
    connection->is_writing = false;
    guard.connection.reset();
}

awaitable<void> ControlClient::read_replies(ConnectionPointer connection) {
    CloseGuard const guard{connection};
    std::string text;
    std::array<char, 4096> piece;
    for (;;) {
        error_code failed;
        std::size_t const size = co_await connection->socket.async_read_some(asio::buffer(piece), into(failed));
        if (failed || text.size() + size > longest_control_reply) co_return;
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

/// Nothing ever comes from it but its end.
awaitable<void> ControlClient::watch_broker(SharedPointer shared) {
    std::array<char, 64> dropped;
    for (;;) {
        error_code failed;
        co_await shared->broker.async_wait(asio::posix::stream_descriptor::wait_read, into(failed));
        if (shared->is_closed) co_return;
        ssize_t const size =
            failed ? 0 : ::recv(shared->broker.native_handle(), dropped.data(), dropped.size(), MSG_DONTWAIT);
        if (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR))) continue;
        auto const ended = shared->ended;
        shared->close();
        co_return ended();
    }
}

}  // namespace triton::sidecar::control
