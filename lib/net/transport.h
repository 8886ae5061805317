#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <boost/asio/generic/stream_protocol.hpp>
#include <openssl/ssl.h>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/net/address.h"
#include "lib/net/loop.h"
#include "lib/net/turns.h"

namespace triton::net {

/// The bytes of a connection over TCP or a Unix socket, plain or by TLS, with one time limit for whatever is waited
/// for. It is accepted from somebody (a server's side) or made (a client's).
///
/// The errors of waiting calls: `timeout` when their limit has passed, `unavailable` when the peer has aborted,
/// `corrupt` with OpenSSL's reason for data that is not acceptable TLS; otherwise those of the system call.
///
/// OpenSSL works on the socket itself. Asio's own TLS stream keeps four buffers of 17 kB for each connection, used or
/// not; here a connection that waits has none.
class Transport {
public:
    /// Errors: those of getsockopt(2) and of epoll.
    static Result<std::unique_ptr<Transport>> adopt(Loop& loop, UniqueFd socket);
    /// Not connected yet.
    static std::unique_ptr<Transport> to_connect(Loop& loop);
    ~Transport();
    Transport(Transport const&) = delete;
    Transport& operator=(Transport const&) = delete;

    /// The connection is closed when this has passed; waiters learn that it has ended.
    void expires_after(Duration limit) { expires_at(std::chrono::steady_clock::now() + limit); }
    void expires_at(TimePoint when);
    void expires_never();
    /// May be called at any time; waiters learn that it has ended.
    void close();
    /// The same for the peer, while the descriptor stays open: for callers that have lent its number.
    void break_off();
    [[nodiscard]] bool is_open() const { return socket_.is_open(); }
    [[nodiscard]] bool has_tls() const { return tls_ != nullptr; }

    /// Connects by TCP, in place of a connection that was tried before. Errors: also those of connect(2).
    Task<Result<>> connect(Address address, std::uint16_t port);
    /// For a connection that may be silent for long: the kernel finds out when its peer has vanished.
    void watch_over_peer();

    /// "10.0.0.1:4711"; "unix"; "?" when it has gone.
    [[nodiscard]] std::string peer_address();
    /// The key of the limits of one peer: "10.0.0.1", of IPv6 the first 64 bits, "unix".
    [[nodiscard]] std::string peer_key();
    /// Borrowed.
    [[nodiscard]] int fd() { return socket_.native_handle(); }

    /// Waits until there is something to read, which stays where it is. Returns whether the connection continues.
    Task<bool> wait_readable();

    /// Continues as the client's side of TLS. What the peer is asked for was set in prepare_tls()'s session.
    Task<Result<>> connect_tls();
    /// Continues as the server's side of TLS; each step of it, which costs signatures and checks, waits for its turn.
    /// Errors: what OpenSSL says, or that the peer has gone.
    Task<Result<>> accept_tls(Turns& turns, std::string peer);
    /// Called first, to attach data to it. nullptr: out of memory. A peer that sends more messages of TLS itself than a
    /// connection needs, such as updates of its keys, ends it.
    SSL* prepare_tls(SSL_CTX* context);

    /// Returns 0 when the peer has ended the connection in order. Others get their turn between two pieces of a peer
    /// that sends without end.
    Task<Result<std::size_t>> receive(std::span<char> buffer);
    /// All of it.
    Task<Result<>> send(std::string_view text);

    /// For servers, to whom it is all one: returns 0 at the end of the connection, whatever ended it.
    Task<std::size_t> read_some(std::span<char> buffer);
    /// Returns whether the connection continues.
    Task<bool> write(std::string_view text);

    /// Sends what the kernel takes at once, and removes it from `parts`. Returns whether the connection continues; what
    /// is left may be tried again, as it is, after wait_writable().
    bool send_some(std::span<std::string_view>& parts);
    Task<bool> wait_writable();
    /// How much the kernel keeps for a peer that does not read.
    void limit_send_buffer(int bytes);

    /// Says that nothing more comes. What the peer still sends is for drop_some().
    Task<void> end_writing();
    /// Without TLS. Returns 0 at the end.
    Task<std::size_t> drop_some(std::span<char> buffer);

private:
    bool send_some_by_tls(std::span<std::string_view>& parts);
    struct Free {
        void operator()(SSL* tls) const { ::SSL_free(tls); }
    };

    using Socket = boost::asio::generic::stream_protocol::socket;
    explicit Transport(Socket socket);
    void arm();
    /// What OpenSSL needs before it can continue. Returns false when the peer has ended TLS in order.
    Task<Result<bool>> wait_for_tls(int result);
    [[nodiscard]] Error failure(boost::system::error_code why) const;
    static void count_message(int is_own, int version, int type, void const* text, std::size_t size, SSL* tls,
                              void* by);

    Socket socket_;
    boost::asio::steady_timer timer_;
    TimePoint deadline_ = TimePoint::max();
    std::shared_ptr<Transport*> self_;  // for the timer, which cannot be called back once it has expired
    std::unique_ptr<SSL, Free> tls_;
    int tls_messages_ = 0;        // of the peer, which carry nothing for us
    int reads_at_once_ = 0;       // since something else could run
    bool is_tls_broken_ = false;  // it must not be used any longer
    bool must_read_ = false;      // before send_some() can continue
    bool is_late_ = false;        // closed because its limit has passed
};

}  // namespace triton::net
