#include "sidecar/agent/control_client.h"

#include <array>
#include <cerrno>

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <sys/un.h>

#include "config/json_text.h"
#include "sidecar/agent/control_reply.h"

namespace triton::sidecar {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::size_t longest_reply = 1 << 20;
constexpr std::size_t most_replies = 4096;  // to one call
constexpr std::size_t most_calls = 64;      // at once

std::unexpected<Error> lost() { return fail(ENOTCONN, "reach the launcher"); }

}  // namespace

/// Lives until its last reply has come, even when whoever called has gone: the order of replies needs it.
struct ControlClient::Call {
    explicit Call(asio::io_context& io) : done(io) {}

    asio::steady_timer done;  // cancelled when there is a result
    std::vector<config::Node> replies;
    std::optional<Result<>> result;

    void finish(Result<> with) {
        if (result) return;
        result = std::move(with);
        done.cancel();
    }
};

struct ControlClient::Connection {
    explicit Connection(asio::io_context& io) : socket(io) {}

    Socket socket;
    std::deque<std::shared_ptr<Call>> calls;  // in the order of the replies that are to come
    std::string waiting;                      // to be written
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
        if (!call->result && call->replies.size() < most_replies) call->replies.push_back(std::move(reply->parameters));
        if (reply->continues) return true;
        calls.pop_front();
        call->finish({});
        return true;
    }
};

/// However reading or writing ends, out of memory too, those who wait on the connection learn of it.
struct ControlClient::CloseGuard {
    std::shared_ptr<Connection> connection;
    ~CloseGuard() {
        if (connection) connection->close();
    }
};

ControlClient::ControlClient(asio::io_context& io, std::string path, int connected_fd, std::function<void()> lost)
    : io_(io), path_(std::move(path)), is_configured_(!path_.empty() || connected_fd >= 0), lost_(std::move(lost)) {
    if (connected_fd < 0) return;
    connection_ = std::make_shared<Connection>(io_);
    error_code failed;
    connection_->socket.assign(asio::local::stream_protocol(), connected_fd, failed);
    if (failed) {
        connection_->is_open = false;
        return;
    }
    asio::co_spawn(io_, read_replies(connection_), asio::detached);
}

ControlClient::~ControlClient() = default;

Result<std::shared_ptr<ControlClient::Connection>> ControlClient::connection() {
    if (connection_ && connection_->is_open) return connection_;
    if (path_.empty()) return lost();
    if (path_.size() >= sizeof(sockaddr_un::sun_path)) return fail(ENAMETOOLONG, "reach the launcher at " + path_);
    auto fresh = std::make_shared<Connection>(io_);
    error_code failed;
    // To a Unix socket this never takes long: it succeeds, or the queue is full and it fails.
    fresh->socket.open(asio::local::stream_protocol(), failed);
    if (!failed) fresh->socket.non_blocking(true, failed);
    if (!failed) fresh->socket.connect(asio::local::stream_protocol::endpoint(path_), failed);
    if (failed) return fail(ENOTCONN, "reach the launcher at " + path_ + " (" + errno_text(failed.value()) + ")");
    connection_ = std::move(fresh);
    asio::co_spawn(io_, read_replies(connection_), asio::detached);
    return connection_;
}

asio::awaitable<Result<std::vector<config::Node>>> ControlClient::call(std::string method, std::string parameters,
                                                                       bool more, Duration limit) {
    auto reached = connection();
    if (!reached) co_return std::unexpected(std::move(reached).error());
    auto const connection = *reached;
    if (connection->calls.size() >= most_calls) co_return fail(EAGAIN, "ask the launcher, which is behind");
    auto const call = std::make_shared<Call>(io_);
    connection->calls.push_back(call);
    connection->waiting += R"({"method":)";
    config::append_json_string(connection->waiting, method);
    connection->waiting.append(R"(,"parameters":)").append(parameters);
    connection->waiting.append(more ? R"(,"more":true})" : "}").push_back('\0');
    if (!std::exchange(connection->is_writing, true)) asio::co_spawn(io_, write_calls(connection), asio::detached);
    call->done.expires_after(limit);
    error_code ignored;
    if (!call->result) co_await call->done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    call->finish(fail(ETIMEDOUT, "get an answer from the launcher"));
    if (!*call->result) co_return std::unexpected(call->result->error());
    co_return std::move(call->replies);
}

asio::awaitable<void> ControlClient::write_calls(std::shared_ptr<Connection> connection) {
    CloseGuard guard{connection};
    while (!connection->waiting.empty()) {
        std::string const text = std::exchange(connection->waiting, {});
        error_code failed;
        co_await asio::async_write(connection->socket, asio::buffer(text),
                                   asio::redirect_error(asio::use_awaitable, failed));
        if (failed) co_return;
    }
    connection->is_writing = false;
    guard.connection.reset();
}

asio::awaitable<void> ControlClient::read_replies(std::shared_ptr<Connection> connection) {
    co_await read_until_end(connection);
    if (path_.empty()) lost_();
}

asio::awaitable<void> ControlClient::read_until_end(std::shared_ptr<Connection> connection) {
    CloseGuard const guard{connection};
    std::string text;
    std::array<char, 4096> piece;
    for (;;) {
        error_code failed;
        std::size_t const size = co_await connection->socket.async_read_some(
            asio::buffer(piece), asio::redirect_error(asio::use_awaitable, failed));
        if (failed || text.size() + size > longest_reply) co_return;
        text.append(piece.data(), size);
        for (std::size_t end = text.find('\0'); end != text.npos; end = text.find('\0')) {
            if (!connection->take(std::string_view(text).substr(0, end))) co_return;
            text.erase(0, end + 1);
        }
    }
}

}  // namespace triton::sidecar
