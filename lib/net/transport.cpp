#include "lib/net/transport.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include <arpa/inet.h>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/socket.h>

namespace triton::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

/// Without an exception, and with the error where the caller sees it.
auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

/// The address alone, and with its port. Empty: it has gone.
struct PeerName {
    std::string key;
    std::string whole;
};

PeerName name_of(sockaddr_in const& address) {
    std::array<char, INET_ADDRSTRLEN> text{};
    (void)::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    return {text.data(), std::string(text.data()) + ":" + std::to_string(ntohs(address.sin_port))};
}

/// One host may have all addresses of a /64. An IPv4 address in IPv6's clothes is that address.
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
    adopted.assign(asio::generic::stream_protocol(family, 0), socket.get(), failed);
    if (failed) return fail(failed.value(), "use a connection");
    (void)socket.release();
    int const on = 1;
    if (family != AF_UNIX)  // an answer goes out at once; without it, later
        (void)::setsockopt(adopted.native_handle(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return std::unique_ptr<Transport>(new Transport(std::move(adopted)));
}

Transport::Transport(Socket socket)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), self_(std::make_shared<Transport*>(this)) {
    error_code ignored;
    socket_.native_non_blocking(true, ignored);  // for OpenSSL, which reads and writes itself
}

Transport::~Transport() = default;

void Transport::expires_after(Duration limit) {
    deadline_ = std::chrono::steady_clock::now() + limit;
    // A timer that fires too early is set again: most limits are replaced long before they end.
    if (timer_.expiry() == TimePoint{} || timer_.expiry() > deadline_) arm();
}

void Transport::expires_never() { deadline_ = TimePoint::max(); }

void Transport::arm() {
    timer_.expires_at(deadline_);
    timer_.async_wait([weak = std::weak_ptr(self_)](error_code cancelled) {
        auto const self = weak.lock();
        if (cancelled || !self) return;
        Transport& transport = **self;
        if (std::chrono::steady_clock::now() >= transport.deadline_) return transport.close();
        transport.timer_.expires_at(TimePoint{});
        if (transport.deadline_ != TimePoint::max()) transport.arm();
    });
}

void Transport::close() {
    error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
}

std::string Transport::peer_address() {
    PeerName name = peer_of(socket_.native_handle());
    return name.whole.empty() ? "?" : std::move(name.whole);
}

std::string Transport::peer_key() { return peer_of(socket_.native_handle()).key; }

Task<bool> Transport::wait_readable() {
    if (tls_ && ::SSL_has_pending(tls_.get()) == 1) co_return true;
    error_code failed;
    co_await socket_.async_wait(Socket::wait_read, into(failed));
    co_return !failed;
}

SSL* Transport::prepare_tls(SSL_CTX* context) {
    tls_.reset(::SSL_new(context));
    if (tls_ && ::SSL_set_fd(tls_.get(), socket_.native_handle()) != 1) tls_.reset();
    return tls_.get();
}

Task<bool> Transport::wait_for_tls(int result) {
    error_code failed;
    switch (::SSL_get_error(tls_.get(), result)) {
        case SSL_ERROR_WANT_READ: co_await socket_.async_wait(Socket::wait_read, into(failed)); break;
        case SSL_ERROR_WANT_WRITE: co_await socket_.async_wait(Socket::wait_write, into(failed)); break;
        case SSL_ERROR_ZERO_RETURN: co_return false;
        default: is_tls_broken_ = true; co_return false;
    }
    co_return !failed && socket_.is_open();
}

Task<Result<>> Transport::accept_tls(Turns& turns, std::string peer) {
    for (;;) {
        co_await turns.take(peer);
        // A closed socket's number may be another's by now, and OpenSSL knows the number.
        if (!socket_.is_open()) co_return fail(ErrorKind::timeout, "the peer has gone, or its time is over");
        ::ERR_clear_error();
        int const result = ::SSL_accept(tls_.get());
        if (result == 1) co_return Result<>();
        unsigned long const code = ::ERR_peek_last_error();
        if (co_await wait_for_tls(result)) continue;
        is_tls_broken_ = true;
        char const* const reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
        co_return fail(reason ? reason : "the peer has gone, or its time is over");
    }
}

Task<std::size_t> Transport::read_some(std::span<char> buffer) {
    if (!tls_) co_return co_await drop_some(buffer);
    while (socket_.is_open()) {
        ::ERR_clear_error();
        int const result = ::SSL_read(tls_.get(), buffer.data(), tls_size(buffer.size()));
        if (result > 0) co_return static_cast<std::size_t>(result);
        if (!co_await wait_for_tls(result)) break;
    }
    co_return 0;
}

Task<std::size_t> Transport::drop_some(std::span<char> buffer) {
    error_code failed;
    std::size_t const size = co_await socket_.async_read_some(asio::buffer(buffer.data(), buffer.size()), into(failed));
    co_return failed ? 0 : size;
}

Task<bool> Transport::write(std::string_view text) {
    if (!tls_) {
        error_code failed;
        co_await asio::async_write(socket_, asio::buffer(text), into(failed));
        co_return !failed;
    }
    while (!text.empty()) {
        if (!socket_.is_open()) co_return false;
        ::ERR_clear_error();
        int const result = ::SSL_write(tls_.get(), text.data(), tls_size(text.size()));
        if (result > 0) {
            text.remove_prefix(static_cast<std::size_t>(result));
        } else if (!co_await wait_for_tls(result)) {
            co_return false;
        }
    }
    co_return true;
}

Task<void> Transport::end_writing() {
    while (tls_ && !is_tls_broken_ && socket_.is_open()) {
        ::ERR_clear_error();
        int const result = ::SSL_shutdown(tls_.get());
        if (result >= 0 || !co_await wait_for_tls(result)) break;  // the peer's own end is not waited for
    }
    error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
}

}  // namespace triton::net
