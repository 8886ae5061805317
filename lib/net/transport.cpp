#include "lib/net/transport.h"

#include <algorithm>
#include <climits>

#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <openssl/err.h>

namespace triton::net {

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// Without an exception, and with the error where the caller sees it.
auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

int tls_size(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, INT_MAX)); }

}  // namespace

Transport::Transport(tcp::socket socket)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), self_(std::make_shared<Transport*>(this)) {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
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

std::string Transport::peer_address() const {
    error_code failed;
    tcp::endpoint const remote = socket_.remote_endpoint(failed);
    return failed ? std::string("?") : remote.address().to_string() + ":" + std::to_string(remote.port());
}

awaitable<bool> Transport::wait_readable() {
    if (tls_ && ::SSL_has_pending(tls_.get()) == 1) co_return true;
    error_code failed;
    co_await socket_.async_wait(tcp::socket::wait_read, into(failed));
    co_return !failed;
}

SSL* Transport::prepare_tls(SSL_CTX* context) {
    tls_.reset(::SSL_new(context));
    if (tls_ && ::SSL_set_fd(tls_.get(), socket_.native_handle()) != 1) tls_.reset();
    return tls_.get();
}

awaitable<bool> Transport::wait_for_tls(int result) {
    error_code failed;
    switch (::SSL_get_error(tls_.get(), result)) {
        case SSL_ERROR_WANT_READ: co_await socket_.async_wait(tcp::socket::wait_read, into(failed)); break;
        case SSL_ERROR_WANT_WRITE: co_await socket_.async_wait(tcp::socket::wait_write, into(failed)); break;
        case SSL_ERROR_ZERO_RETURN: co_return false;
        default: is_tls_broken_ = true; co_return false;
    }
    co_return !failed && socket_.is_open();
}

awaitable<Result<>> Transport::accept_tls() {
    for (;;) {
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

awaitable<std::size_t> Transport::read_some(std::span<char> buffer) {
    if (!tls_) co_return co_await drop_some(buffer);
    while (socket_.is_open()) {
        ::ERR_clear_error();
        int const result = ::SSL_read(tls_.get(), buffer.data(), tls_size(buffer.size()));
        if (result > 0) co_return static_cast<std::size_t>(result);
        if (!co_await wait_for_tls(result)) break;
    }
    co_return 0;
}

awaitable<std::size_t> Transport::drop_some(std::span<char> buffer) {
    error_code failed;
    std::size_t const size = co_await socket_.async_read_some(asio::buffer(buffer.data(), buffer.size()), into(failed));
    co_return failed ? 0 : size;
}

awaitable<bool> Transport::write(std::string_view text) {
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

awaitable<void> Transport::end_writing() {
    while (tls_ && !is_tls_broken_ && socket_.is_open()) {
        ::ERR_clear_error();
        int const result = ::SSL_shutdown(tls_.get());
        if (result >= 0 || !co_await wait_for_tls(result)) break;  // the peer's own end is not waited for
    }
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

}  // namespace triton::net
