#include "lib/net/transport.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include <arpa/inet.h>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace triton::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::size_t most_parts = 256;  // in one system call
constexpr int most_reads_at_once = 16;   // of what a peer has sent already; some 16 kB are decrypted together
constexpr int most_tls_messages = 64;    // of a peer: some ten of the handshake, then session tickets and new keys

/// Awaits without exceptions: the error goes where the caller sees it.
auto result_into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

/// The peer's address, alone and with its port. Empty: the peer has gone.
struct PeerName {
    std::string key;
    std::string whole;
};

PeerName name_of(sockaddr_in const& address) {
    std::array<char, INET_ADDRSTRLEN> text{};
    (void)::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    return {text.data(), std::string(text.data()) + ":" + std::to_string(ntohs(address.sin_port))};
}

/// Names a peer. One host may have all addresses of a /64. An IPv4 address that is mapped into IPv6 counts as IPv4.
PeerName name_of(sockaddr_in6 const& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    (void)::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    std::string key(text.data());
    if (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr)) {
        key.erase(0, key.rfind(':') + 1);
    } else {
        in6_addr network = address.sin6_addr;
        std::fill(network.s6_addr + 8, network.s6_addr + 16, 0);
        std::array<char, INET6_ADDRSTRLEN> shown{};
        (void)::inet_ntop(AF_INET6, &network, shown.data(), shown.size());
        key = std::string(shown.data()) + "/64";
    }
    return {std::move(key), "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(address.sin6_port))};
}

PeerName peer_of(int socket) {
    union {
        sockaddr any;
        sockaddr_in v4;
        sockaddr_in6 v6;
        sockaddr_storage storage;
    } address{};
    socklen_t size = sizeof address;
    if (socket < 0 || ::getpeername(socket, &address.any, &size) != 0) return {};
    switch (address.any.sa_family) {
        case AF_INET: return name_of(address.v4);
        case AF_INET6: return name_of(address.v6);
        default: return {"unix", "unix"};
    }
}

/// What OpenSSL says about a step that has failed for good. Must be asked at once, because all connections share its
/// queue.
Error tls_failure() {
    unsigned long const code = ::ERR_peek_last_error();
    char const* const reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
    if (!reason || ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return {ErrorKind::unavailable, {}, "the connection was aborted", {}, 0};
    return {ErrorKind::corrupt, {}, reason, {}, 0};
}

/// Removes this many bytes from the front, with the parts that are then empty there.
void drop_front(std::span<std::string_view>& parts, std::size_t size) {
    while (!parts.empty() && size >= parts.front().size()) {
        size -= parts.front().size();
        parts = parts.subspan(1);
    }
    if (!parts.empty()) parts.front().remove_prefix(size);
}

int tls_size(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, INT_MAX)); }

}  // namespace

Result<std::unique_ptr<Transport>> Transport::adopt(Loop& loop, UniqueFd socket) {
    int family = 0;
    socklen_t size = sizeof family;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) {
        int const err = errno;
        return fail(err, "use a connection");
    }
    Socket adopted(loop);
    error_code failed;
    (void)adopted.assign(asio::generic::stream_protocol(family, 0), socket.get(), failed);
    if (failed) return fail(failed.value(), "use a connection");
    (void)socket.release();
    int const on = 1;
    if (family != AF_UNIX)  // send answers at once; if this fails, they go out later
        (void)::setsockopt(adopted.native_handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return std::unique_ptr<Transport>(new Transport(std::move(adopted)));
}

std::unique_ptr<Transport> Transport::to_connect(Loop& loop) {
    return std::unique_ptr<Transport>(new Transport(Socket(loop)));
}

Transport::Transport(Socket socket)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), self_(std::make_shared<Transport*>(this)) {
    error_code ignored;
    if (socket_.is_open())
        (void)socket_.native_non_blocking(true, ignored);  // OpenSSL reads and writes the socket itself
}

Transport::~Transport() = default;

void Transport::expires_at(TimePoint when) {
    deadline_ = when;
    // The timer is not moved for a later deadline, since most limits are replaced long before they end: when it fires
    // too early it is set again.
    if (timer_.expiry() == TimePoint{} || timer_.expiry() > deadline_) arm();
}

void Transport::expires_never() { deadline_ = TimePoint::max(); }

void Transport::arm() {
    timer_.expires_at(deadline_);
    timer_.async_wait([weak = std::weak_ptr(self_)](error_code cancelled) {
        auto const self = weak.lock();
        if (cancelled || !self) return;
        Transport& transport = **self;
        if (std::chrono::steady_clock::now() >= transport.deadline_) {
            transport.is_late_ = true;
            return transport.close();
        }
        transport.timer_.expires_at(TimePoint{});
        if (transport.deadline_ != TimePoint::max()) transport.arm();
    });
}

void Transport::close() {
    error_code ignored;
    (void)socket_.close(ignored);
    timer_.cancel();
}

void Transport::break_off() { (void)::shutdown(socket_.native_handle(), SHUT_RDWR); }

Error Transport::failure(error_code why) const {
    if (is_late_) return {ErrorKind::timeout, {}, "timed out", {}, 0};
    if (why == asio::error::eof) return {ErrorKind::unavailable, {}, "the connection was aborted", {}, 0};
    int const code = why ? why.value() : ECANCELED;
    return {kind_of_errno(code), {}, errno_text(code), {}, code};
}

Task<Result<>> Transport::connect(Address address, std::uint16_t port) {
    error_code failed;
    if (is_late_) co_return std::unexpected(failure(failed));
    (void)socket_.close(failed);
    asio::ip::tcp::endpoint const to(address, port);
    co_await socket_.async_connect(Socket::endpoint_type(to), result_into(failed));
    if (!failed) (void)socket_.native_non_blocking(true, failed);
    if (failed || !socket_.is_open()) co_return std::unexpected(failure(failed));
    int const on = 1;
    (void)::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    co_return Result<>();
}

void Transport::watch_over_peer() {
    auto const set = [this](int level, int option, int value) {
        (void)::setsockopt(socket_.native_handle(), level, option, &value, sizeof value);  // useful, but not needed
    };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
    set(IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

std::string Transport::peer_address() {
    PeerName name = peer_of(socket_.native_handle());
    return name.whole.empty() ? "?" : std::move(name.whole);
}

std::string Transport::peer_key() { return peer_of(socket_.native_handle()).key; }

Task<bool> Transport::wait_readable() {
    if (tls_ && ::SSL_has_pending(tls_.get()) == 1) co_return true;
    error_code failed;
    co_await socket_.async_wait(Socket::wait_read, result_into(failed));
    co_return !failed;
}

SSL* Transport::prepare_tls(SSL_CTX* context) {
    tls_.reset(::SSL_new(context));
    if (tls_ && ::SSL_set_fd(tls_.get(), socket_.native_handle()) != 1) tls_.reset();
    if (tls_) {
        ::SSL_set_msg_callback(tls_.get(), &Transport::count_message);
        ::SSL_set_msg_callback_arg(tls_.get(), this);
    }
    return tls_.get();
}

/// Ends a connection whose peer keeps sending messages of TLS itself, each of which costs us keys: OpenSSL works
/// through all of them in one call. What comes after "the peer has ended" is thrown away unread.
void Transport::count_message(int is_own, int /*version*/, int type, void const* /*text*/, std::size_t /*size*/,
                              SSL* tls, void* by) {
    if (is_own != 0 || type != SSL3_RT_HANDSHAKE) return;
    if (++static_cast<Transport*>(by)->tls_messages_ > most_tls_messages)
        ::SSL_set_shutdown(tls, SSL_RECEIVED_SHUTDOWN);
}

Task<Result<bool>> Transport::wait_for_tls(int result) {
    error_code failed;
    switch (::SSL_get_error(tls_.get(), result)) {
        case SSL_ERROR_WANT_READ: co_await socket_.async_wait(Socket::wait_read, result_into(failed)); break;
        case SSL_ERROR_WANT_WRITE: co_await socket_.async_wait(Socket::wait_write, result_into(failed)); break;
        case SSL_ERROR_ZERO_RETURN: co_return false;
        default: is_tls_broken_ = true; co_return std::unexpected(tls_failure());
    }
    // The number of a closed socket may belong to another by now, and OpenSSL uses the number.
    if (failed || !socket_.is_open()) co_return std::unexpected(failure(failed));
    co_return true;
}

Task<Result<>> Transport::connect_tls() {
    for (;;) {
        ::ERR_clear_error();
        int const result = ::SSL_connect(tls_.get());
        if (result == 1) co_return Result<>();
        auto const goes_on = co_await wait_for_tls(result);
        if (!goes_on) co_return std::unexpected(goes_on.error());
        if (!*goes_on) co_return std::unexpected(failure(asio::error::eof));
    }
}

Task<Result<>> Transport::accept_tls(Turns& turns, std::string peer) {
    for (;;) {
        co_await turns.take(peer);
        if (!socket_.is_open()) co_return fail(ErrorKind::timeout, "the peer is gone or has timed out");
        ::ERR_clear_error();
        int const result = ::SSL_accept(tls_.get());
        if (result == 1) co_return Result<>();
        auto goes_on = co_await wait_for_tls(result);
        if (goes_on && *goes_on) continue;
        is_tls_broken_ = true;
        if (!goes_on && goes_on.error().kind == ErrorKind::corrupt) co_return std::unexpected(goes_on.error());
        co_return fail("the peer is gone or has timed out");
    }
}

Task<Result<std::size_t>> Transport::receive(std::span<char> buffer) {
    error_code failed;
    if (!tls_) {
        std::size_t const size =
            co_await socket_.async_read_some(asio::buffer(buffer.data(), buffer.size()), result_into(failed));
        if (failed && (failed != asio::error::eof || is_late_)) co_return std::unexpected(failure(failed));
        co_return failed ? 0 : size;
    }
    while (socket_.is_open()) {
        ::ERR_clear_error();
        int const result = ::SSL_read(tls_.get(), buffer.data(), tls_size(buffer.size()));
        if (result > 0) {
            // OpenSSL has read it without a wait. One peer that sends faster than we read must not keep us.
            if (++reads_at_once_ >= most_reads_at_once) {
                reads_at_once_ = 0;
                co_await asio::post(socket_.get_executor(), asio::use_awaitable);
            }
            co_return static_cast<std::size_t>(result);
        }
        reads_at_once_ = 0;
        auto const goes_on = co_await wait_for_tls(result);
        if (!goes_on) co_return std::unexpected(goes_on.error());
        if (!*goes_on) co_return 0;
    }
    co_return std::unexpected(failure(failed));
}

Task<Result<>> Transport::send(std::string_view text) {
    error_code failed;
    if (!tls_) {
        co_await asio::async_write(socket_, asio::buffer(text), result_into(failed));
        if (failed) co_return std::unexpected(failure(failed));
        co_return Result<>();
    }
    while (!text.empty()) {
        if (!socket_.is_open()) co_return std::unexpected(failure(failed));
        ::ERR_clear_error();
        int const result = ::SSL_write(tls_.get(), text.data(), tls_size(text.size()));
        if (result > 0) {
            text.remove_prefix(static_cast<std::size_t>(result));
            continue;
        }
        auto const goes_on = co_await wait_for_tls(result);
        if (!goes_on) co_return std::unexpected(goes_on.error());
        if (!*goes_on) co_return std::unexpected(failure(asio::error::eof));
    }
    co_return Result<>();
}

Task<std::size_t> Transport::read_some(std::span<char> buffer) {
    auto const size = co_await receive(buffer);
    co_return size.value_or(0);
}

Task<bool> Transport::write(std::string_view text) {
    auto const sent = co_await send(text);
    co_return sent.has_value();
}

bool Transport::send_some(std::span<std::string_view>& parts) {
    if (tls_) return send_some_by_tls(parts);
    while (!parts.empty()) {
        std::array<iovec, most_parts> vectors{};
        std::size_t const count = std::min(parts.size(), vectors.size());
        std::size_t wanted = 0;
        for (std::size_t i = 0; i < count; ++i) {
            vectors[i] = {const_cast<char*>(parts[i].data()), parts[i].size()};  // only read from
            wanted += parts[i].size();
        }
        msghdr message{};
        message.msg_iov = vectors.data();
        message.msg_iovlen = count;
        ssize_t const sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        drop_front(parts, static_cast<std::size_t>(sent));
        if (static_cast<std::size_t>(sent) < wanted) return true;
    }
    return true;
}

bool Transport::send_some_by_tls(std::span<std::string_view>& parts) {
    for (; !parts.empty() && socket_.is_open(); drop_front(parts, 0)) {
        if (parts.front().empty()) continue;
        ::ERR_clear_error();
        int const result = ::SSL_write(tls_.get(), parts.front().data(), tls_size(parts.front().size()));
        if (result > 0) {
            parts.front().remove_prefix(static_cast<std::size_t>(result));
            continue;
        }
        int const why = ::SSL_get_error(tls_.get(), result);
        must_read_ = why == SSL_ERROR_WANT_READ;
        if (must_read_ || why == SSL_ERROR_WANT_WRITE) return true;
        is_tls_broken_ = true;
        return false;
    }
    return parts.empty();
}

Task<bool> Transport::wait_writable() {
    error_code failed;
    co_await socket_.async_wait(std::exchange(must_read_, false) ? Socket::wait_read : Socket::wait_write,
                                result_into(failed));
    co_return !failed && socket_.is_open();
}

void Transport::limit_send_buffer(int bytes) {
    // By default the kernel lets this buffer grow to megabytes.
    (void)::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

Task<std::size_t> Transport::drop_some(std::span<char> buffer) {
    error_code failed;
    std::size_t const size =
        co_await socket_.async_read_some(asio::buffer(buffer.data(), buffer.size()), result_into(failed));
    co_return failed ? 0 : size;
}

Task<void> Transport::end_writing() {
    while (tls_ && !is_tls_broken_ && socket_.is_open()) {
        ::ERR_clear_error();
        int const result = ::SSL_shutdown(tls_.get());
        if (result >= 0) break;  // we do not wait for the peer's end
        auto const goes_on = co_await wait_for_tls(result);
        if (!goes_on.value_or(false)) break;
    }
    error_code ignored;
    (void)socket_.shutdown(Socket::shutdown_send, ignored);
}

}  // namespace triton::net
