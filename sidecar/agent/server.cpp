#include "sidecar/agent/server.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <new>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "lib/base/idle_memory.h"
#include "lib/net/peer_certificate.h"
#include "lib/net/transport.h"

namespace triton::agent {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr Duration lingering = std::chrono::seconds(2);
constexpr std::size_t most_lingering_bytes = 64 * 1024;
constexpr Duration accept_pause = std::chrono::milliseconds(100);
constexpr Duration idle_pause = std::chrono::seconds(1);
constexpr std::size_t read_size = 2048;

/// What would make two readers see two different requests, or nobody know for whom one is; nullptr: nothing.
/// Source: RFC 9112, 3.2 and 6.1.
char const* fault_of(http::fields const& head, unsigned version) {
    std::size_t const codings = head.count(http::field::transfer_encoding);
    if (codings > 0) {
        if (version < 11) return "Transfer-Encoding is not known before HTTP/1.1";
        if (head.count(http::field::content_length) > 0) return "it has Transfer-Encoding and Content-Length";
        if (codings > 1 || !beast::iequals(head[http::field::transfer_encoding], "chunked"))
            return "the only Transfer-Encoding is chunked";
    }
    std::size_t const hosts = head.count(http::field::host);
    if (hosts > 1) return "it has Host more than once";
    return hosts == 0 && version >= 11 ? "Host is missing" : nullptr;
}

/// Empty lines before a request are ignored, RFC 9112, 2.2.
void skip_empty_lines(beast::flat_buffer& buffer) {
    while (buffer.size() >= 2 && std::memcmp(buffer.data().data(), "\r\n", 2) == 0)
        buffer.consume(2);
}

/// Without an exception, and with the error where the caller sees it.
auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

/// Who is at the other end.
struct Peer {
    std::string address;
    bool must_identify = false;    ///< a certificate is asked for
    bool has_certificate = false;  ///< one that is accepted
    std::string refusal;           ///< why not
};

std::string response_text(Reply const& reply, unsigned version, bool keeps, bool is_head) {
    auto const reason = http::obsolete_reason(static_cast<http::status>(reply.status));
    std::string text = "HTTP/1." + std::to_string(version % 10) + " " + std::to_string(reply.status) + " ";
    text.append(reason.data(), reason.size());
    text.append("\r\nContent-Type: ").append(reply.type);
    if (!reply.allow.empty()) text.append("\r\nAllow: ").append(reply.allow);
    if (reply.asks_to_retry) text += "\r\nRetry-After: 1";
    text.append("\r\nCache-Control: no-store\r\nContent-Length: ").append(std::to_string(reply.body.size()));
    // What each version of HTTP does without being told.
    if (keeps != (version > 10)) text.append("\r\nConnection: ").append(keeps ? "keep-alive" : "close");
    text += "\r\n\r\n";
    if (!is_head) text += reply.body;
    return text;
}

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Impl> {
public:
    Impl(ServerSettings settings, Surroundings around)
        : settings_(std::move(settings)), around_(around), slot_freed_(around.io, TimePoint::max()), idle_(around.io) {
        become_idle();
    }

    Result<> listen(UniqueFd socket) {
        sockaddr_storage address{};
        socklen_t size = sizeof address;
        if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
            return fail(errno, "use the listening socket");
        if (address.ss_family != AF_INET && address.ss_family != AF_INET6)
            return fail(EAFNOSUPPORT, "use the listening socket, which is none for TCP");
        auto acceptor = std::make_shared<tcp::acceptor>(around_.io);
        error_code failed;
        acceptor->assign(address.ss_family == AF_INET ? tcp::v4() : tcp::v6(), socket.get(), failed);
        if (failed) return fail(failed.value(), "use the listening socket");
        (void)socket.release();
        acceptors_.push_back(acceptor);
        asio::co_spawn(around_.io, accept(shared_from_this(), acceptor), asio::detached);
        return {};
    }

    void stop(Duration grace) {
        is_stopping_ = true;
        error_code ignored;
        for (auto const& acceptor : acceptors_)
            acceptor->close(ignored);
        while (!silent_.empty())
            close(*silent_.front());
        if (open_ == 0) return around_.io.stop();
        auto const timer = std::make_shared<asio::steady_timer>(around_.io, grace);
        timer->async_wait([timer, this](error_code) { around_.io.stop(); });
    }

private:
    /// One connection's place among all. While a peer is waited for it is in the list of the silent, in the order in
    /// which that began.
    class Slot {
    public:
        Slot(Impl& server, net::Transport& transport) : server_(server), transport_(transport) {
            ++server_.open_;
            server_.around_.figures.open_connections = server_.open_;
        }
        Slot(Slot const&) = delete;
        Slot& operator=(Slot const&) = delete;
        ~Slot() {
            heard();
            --server_.open_;
            server_.around_.figures.open_connections = server_.open_;
            server_.slot_freed_.cancel();
            if (server_.open_ == 0) server_.become_idle();
        }

        void wait() {
            heard();
            place_ = server_.silent_.insert(server_.silent_.end(), this);
        }
        void heard() {
            if (place_) server_.silent_.erase(*place_);
            place_.reset();
        }
        void close() {
            heard();
            transport_.close();
        }

    private:
        Impl& server_;
        net::Transport& transport_;
        std::optional<std::list<Slot*>::iterator> place_;
    };

    static void close(Slot& slot) { slot.close(); }

    // --- connections

    static awaitable<void> accept(std::shared_ptr<Impl> self, std::shared_ptr<tcp::acceptor> acceptor) {
        while (!self->is_stopping_) {
            std::string problem;
            try {
                error_code failed;
                tcp::socket socket = co_await acceptor->async_accept(into(failed));
                if (self->is_stopping_) co_return;
                if (!failed) {
                    ++self->around_.figures.connections;
                    co_await self->make_room();
                    asio::co_spawn(self->around_.io, converse(self, std::move(socket)), asio::detached);
                } else {
                    problem = failed.message();
                }
            } catch (std::exception const& error) {
                problem = error.what();
            }
            if (problem.empty()) continue;
            self->around_.log.write(sidecar::control::AgentLogLevel::warning, "accept-failed",
                                    "cannot accept a connection: " + problem);
            // Descriptors or memory have run out, most likely: one that says nothing can go, or time passes.
            (void)self->evict();
            error_code ignored;
            asio::steady_timer pause(self->around_.io, accept_pause);
            co_await pause.async_wait(into(ignored));
        }
    }

    /// The last connection has ended. When none follows soon, what they needed is given back.
    void become_idle() {
        if (is_stopping_) return around_.io.stop();
        idle_.expires_after(idle_pause);
        idle_.async_wait([this](error_code cancelled) {
            if (!cancelled && open_ == 0) release_idle_memory();
        });
    }

    bool evict() {
        if (silent_.empty()) return false;
        ++around_.figures.evicted_connections;
        silent_.front()->close();
        return true;
    }

    /// Until a slot is free: the ones that gave way are still open for a moment.
    awaitable<void> make_room() {
        if (open_ < settings_.limits.connections) co_return;
        (void)evict();  // when nobody is silent all are being answered, which ends soon
        while (open_ >= settings_.limits.connections) {
            error_code cancelled;
            slot_freed_.expires_at(TimePoint::max());
            co_await slot_freed_.async_wait(into(cancelled));
            if (open_ >= settings_.limits.connections) (void)evict();
        }
    }

    static awaitable<void> converse(std::shared_ptr<Impl> self, tcp::socket accepted) {
        net::Transport stream(std::move(accepted));
        Slot slot(*self, stream);
        try {
            Peer peer;
            if (!self->around_.certificates || co_await self->begin_tls(stream, slot, peer))
                co_await self->serve(stream, slot, peer);
        } catch (std::exception const& error) {
            // Out of memory, for one: this connection ends, the others go on.
            self->around_.log.write(sidecar::control::AgentLogLevel::error, "connection-failed", error.what());
        }
    }

    /// Returns whether the peer may go on.
    awaitable<bool> begin_tls(net::Transport& stream, Slot& slot, Peer& peer) {
        // Whoever connects and says nothing shall not cost the memory of a TLS connection.
        slot.wait();
        stream.expires_after(settings_.limits.request);
        if (!co_await stream.wait_readable()) co_return false;
        stream.expires_after(settings_.limits.request);
        auto const context = around_.certificates->context();
        SSL* const tls = stream.prepare_tls(context.get());
        if (!tls) throw std::bad_alloc();
        net::ChainFaults faults;
        net::ChainFaults::attach(tls, &faults);
        auto const done = co_await stream.accept_tls();
        net::ChainFaults::attach(tls, nullptr);
        slot.heard();
        if (done) {
            identify(peer, stream, tls, faults);
        } else {
            ++around_.figures.failed_handshakes;
            around_.log.write(sidecar::control::AgentLogLevel::debug, "handshake-failed", done.error().text(),
                              {{"peer", stream.peer_address()}});
        }
        co_return done.has_value();
    }

    void identify(Peer& peer, net::Transport const& stream, SSL* tls, net::ChainFaults const& faults) {
        peer.must_identify = !around_.certificates->files().authority.empty();
        if (!peer.must_identify) return;
        auto const shown = net::peer_certificate(tls, faults);
        auto const verdict = shown ? settings_.rules.check(*shown) : fail("no certificate was shown");
        peer.has_certificate = verdict.has_value();
        if (verdict) return;
        peer.refusal = verdict.error().text();
        peer.address = stream.peer_address();
    }

    // --- requests

    using Parser = http::request_parser<http::string_body>;

    awaitable<void> serve(net::Transport& stream, Slot& slot, Peer& peer) {
        beast::flat_buffer buffer(settings_.limits.header_bytes + 64 * 1024);
        for (bool is_first = true;; is_first = false) {
            slot.wait();
            stream.expires_after(is_first ? settings_.limits.request : settings_.limits.idle);
            if (buffer.size() == 0 && !co_await stream.wait_readable()) break;
            if (!co_await serve_one(stream, slot, peer, buffer)) break;
            if (is_stopping_) break;
            // Whoever is waited for has no memory of his own but his place.
            if (buffer.size() == 0) buffer.shrink_to_fit();
        }
        co_await finish(stream, slot);
    }

    /// Until the header is read, or all. Errors: of what was sent; partial_message when the peer has gone.
    static awaitable<error_code> read(net::Transport& stream, Parser& parser, beast::flat_buffer& buffer,
                                      bool is_whole) {
        parser.eager(is_whole);
        for (;;) {
            if (is_whole ? parser.is_done() : parser.is_header_done()) co_return error_code();
            error_code failed = http::error::need_more;
            if (!parser.got_some()) skip_empty_lines(buffer);
            if (buffer.size() > 0) buffer.consume(parser.put(buffer.data(), failed));
            if (!failed) continue;
            if (failed != http::error::need_more) co_return failed;
            if (buffer.size() + read_size > buffer.max_size()) co_return http::error::buffer_overflow;
            auto const place = buffer.prepare(read_size);
            std::size_t const size = co_await stream.read_some({static_cast<char*>(place.data()), place.size()});
            if (size == 0) co_return http::error::partial_message;
            buffer.commit(size);
        }
    }

    /// Returns whether the connection goes on.
    awaitable<bool> serve_one(net::Transport& stream, Slot& slot, Peer& peer, beast::flat_buffer& buffer) {
        Parser parser;
        parser.header_limit(settings_.limits.header_bytes);
        parser.body_limit(settings_.limits.body_bytes);
        stream.expires_after(settings_.limits.request);
        error_code failed = co_await read(stream, parser, buffer, false);
        if (failed) co_return co_await refuse(stream, failed);
        auto const& head = parser.get();
        if (char const* const fault = fault_of(head, head.version())) co_return co_await refuse(stream, fault);
        Request request;
        request.route = route(std::string_view(head.method_string().data(), head.method_string().size()),
                              std::string_view(head.target().data(), head.target().size()));
        request.has_accepted_certificate = peer.has_certificate;
        bool const keeps = head.keep_alive();
        unsigned const version = head.version();
        if (auto refusal = refusal_of(request.route, peer)) {
            // Without its body, which is not worth the wait; hence the connection ends if there is one.
            co_return co_await send(stream, request.route, std::move(*refusal), version, keeps && parser.is_done());
        }
        if (!parser.is_done()) {
            stream.expires_after(settings_.limits.request);
            bool const is_awaited = beast::iequals(head[http::field::expect], "100-continue");
            if (is_awaited && !co_await stream.write("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
            failed = co_await read(stream, parser, buffer, true);
            if (failed) co_return co_await refuse(stream, failed);
        }
        slot.heard();
        stream.expires_never();
        request.body = parser.get().body();
        auto const accept = parser.get()[http::field::accept];
        request.accept = std::string_view(accept.data(), accept.size());
        Reply reply = co_await around_.service.answer(request);
        bool const ends_agent = reply.ends_agent;
        bool const goes_on = co_await send(stream, request.route, std::move(reply), version, keeps && !ends_agent);
        if (ends_agent) request_end();
        co_return goes_on;
    }

    /// Before anything is done for a request.
    std::optional<Reply> refusal_of(Route const& route, Peer const& peer) {
        bool const may_all =
            is_open(route.endpoint) || (route.endpoint == Endpoint::metrics && settings_.has_open_metrics);
        // First of all, so that strangers do not learn what there is.
        if (peer.must_identify && !peer.has_certificate && !may_all) {
            ++around_.figures.refused_peers;
            tell_of_refusal(peer);
            return text_reply(401, "Client certificate was not approved");
        }
        switch (route.error) {
            case RouteError::none: return std::nullopt;
            case RouteError::bad_path: return text_reply(400, "the path is malformed");
            case RouteError::not_found: return text_reply(404, "Path not found");
            case RouteError::method: break;
        }
        Reply reply = text_reply(405, "only " + std::string(route.allowed) + " is allowed here");
        reply.allow = route.allowed;
        return reply;
    }

    /// Once a second at most: whoever is refused may come again as often as he likes.
    void tell_of_refusal(Peer const& peer) {
        TimePoint const now = std::chrono::steady_clock::now();
        if (now - refusal_told_ < std::chrono::seconds(1)) return;
        refusal_told_ = now;
        around_.log.write(sidecar::control::AgentLogLevel::info, "peer-refused", peer.refusal,
                          {{"peer", peer.address}});
    }

    /// A request that cannot be read. Returns false: the connection ends.
    awaitable<bool> refuse(net::Transport& stream, error_code why) {
        Reply reply;
        if (why == http::error::header_limit || why == http::error::buffer_overflow) {
            reply = text_reply(431, "the header is too long");
        } else if (why == http::error::body_limit) {
            reply = text_reply(413, "the body is too long");
        } else if (why.category() == error_code(http::error::bad_method).category() &&
                   why != http::error::end_of_stream && why != http::error::partial_message) {
            co_return co_await refuse(stream, why.message());
        } else {
            co_return false;  // it has gone, or its time is over
        }
        co_return co_await send_refusal(stream, std::move(reply));
    }

    awaitable<bool> refuse(net::Transport& stream, std::string why) {
        return send_refusal(stream, text_reply(400, "the request cannot be read: " + why));
    }

    awaitable<bool> send_refusal(net::Transport& stream, Reply reply) {
        Route const unknown;  // named: GCC 12 destroys an aggregate that is made inside a co_await expression twice
        co_return co_await send(stream, unknown, std::move(reply), 11, false);
    }

    awaitable<bool> send(net::Transport& stream, Route const& route, Reply reply, unsigned version, bool keeps) {
        ++around_.figures.requests[{route.endpoint, reply.status}];
        keeps = keeps && !is_stopping_;
        std::string const text = response_text(reply, version, keeps, route.is_head);
        stream.expires_after(settings_.limits.answer);
        co_return co_await stream.write(text) && keeps;
    }

    /// Says that nothing more comes, and waits a moment for the peer to say so too: closing at once would reset the
    /// connection when the peer is still sending, and the last answer with it.
    static awaitable<void> finish(net::Transport& stream, Slot& slot) {
        if (!stream.is_open()) co_return;
        slot.wait();
        stream.expires_after(lingering);
        co_await stream.end_writing();
        std::array<char, 1024> dropped;
        for (std::size_t total = 0; total < most_lingering_bytes;) {
            std::size_t const size = co_await stream.drop_some(dropped);
            if (size == 0) break;
            total += size;
        }
        slot.heard();
    }

    void request_end() {
        around_.log.write(sidecar::control::AgentLogLevel::info, "restart-requested", "ending, to be started again");
        stop(lingering);
    }

    ServerSettings settings_;
    Surroundings around_;
    std::vector<std::shared_ptr<tcp::acceptor>> acceptors_;
    std::list<Slot*> silent_;  // the longest silent first
    asio::steady_timer slot_freed_;
    asio::steady_timer idle_;
    std::size_t open_ = 0;
    TimePoint refusal_told_{};
    bool is_stopping_ = false;
};

Server::Server(ServerSettings settings, Surroundings around)
    : impl_(std::make_shared<Impl>(std::move(settings), around)) {}

Server::~Server() = default;

Result<> Server::listen(UniqueFd socket) { return impl_->listen(std::move(socket)); }

void Server::stop(Duration grace) { impl_->stop(grace); }

}  // namespace triton::agent
