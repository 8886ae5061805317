#include "lib/net/http_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <list>
#include <map>
#include <new>
#include <vector>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <sys/socket.h>

#include "lib/net/hangups.h"
#include "lib/net/http_syntax.h"
#include "lib/net/peer_certificate.h"
#include "lib/net/places.h"
#include "lib/net/transport.h"
#include "lib/net/turns.h"

namespace triton::net {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using log::LogLevel;

namespace {

constexpr std::size_t most_lingering_bytes = 64 * 1024;
constexpr Duration accept_pause = std::chrono::milliseconds(100);
constexpr Duration idle_pause = std::chrono::seconds(1);
constexpr std::size_t cheap_turns = 16;  // most answers take less than 20 us
constexpr std::size_t read_size = 2048;
constexpr std::size_t first_read_size = 256;  // enough for a short request
constexpr int most_empty_lines = 8;           // before a request
constexpr std::string_view last_chunk = "0\r\n\r\n";

/// Awaits without exceptions: the error goes where the caller sees it.
auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

/// A refusal of what was sent, before what is asked for matters.
struct Fault {
    unsigned status = 400;
    std::string reason;
};

std::optional<Fault> fault_of_length(http::fields const& head) {
    auto const count = head.count(http::field::content_length);
    if (count > 1) return Fault{400, "it has Content-Length more than once"};
    if (count == 1 && !is_number(view(head[http::field::content_length])))
        return Fault{400, "its Content-Length is not a number"};
    return std::nullopt;
}

std::optional<Fault> fault_of_coding(http::fields const& head, unsigned version) {
    std::size_t const codings = head.count(http::field::transfer_encoding);
    if (codings == 0) return std::nullopt;
    if (version < 11) return Fault{400, "Transfer-Encoding is not known before HTTP/1.1"};
    if (head.count(http::field::content_length) > 0) return Fault{400, "it has Transfer-Encoding and Content-Length"};
    if (codings > 1 || !beast::iequals(head[http::field::transfer_encoding], "chunked"))
        return Fault{400, "the only Transfer-Encoding is chunked"};
    return std::nullopt;
}

std::optional<Fault> fault_of_host(http::fields const& head, unsigned version) {
    std::size_t const hosts = head.count(http::field::host);
    if (hosts > 1) return Fault{400, "it has Host more than once"};
    if (hosts == 0 && version >= 11) return Fault{400, "Host is missing"};
    if (hosts == 1 && !is_host_field(view(head[http::field::host]))) return Fault{400, "its Host is not a host"};
    return std::nullopt;
}

/// What would make two readers see two different requests, or leave open which host one is for.
/// Source: RFC 9112, 3.2 and 6.1 to 6.3; RFC 9110, 10.1.1.
std::optional<Fault> fault_of(http::fields const& head, unsigned version) {
    if (auto fault = fault_of_coding(head, version)) return fault;
    if (auto fault = fault_of_length(head)) return fault;
    if (auto fault = fault_of_host(head, version)) return fault;
    // Before HTTP/1.1 this field had no meaning.
    auto const expectation = head[http::field::expect];
    if (version >= 11 && !expectation.empty() && !beast::iequals(expectation, "100-continue"))
        return Fault{417, "the only expectation is 100-continue"};
    return std::nullopt;
}

/// Whether the connection stays open. Every Connection field counts, not only the first.
/// Source: RFC 9110, 5.3 and 7.6.1; RFC 9112, 9.3.
bool keeps_connection(http::fields const& head, unsigned version) {
    bool wants_close = false;
    bool wants_more = false;
    auto const [first, last] = head.equal_range(http::field::connection);
    for (auto field = first; field != last; ++field) {
        wants_close = wants_close || has_token(view(field->value()), "close");
        wants_more = wants_more || has_token(view(field->value()), "keep-alive");
    }
    return !wants_close && (version >= 11 || wants_more);
}

/// Skips empty lines before a request, as RFC 9112, 2.2 demands. Returns how many.
int skip_empty_lines(beast::flat_buffer& buffer) {
    int count = 0;
    for (; buffer.size() >= 2 && std::memcmp(buffer.data().data(), "\r\n", 2) == 0; ++count)
        buffer.consume(2);
    return count;
}

/// The peer of a connection.
struct Peer {
    std::string key;
    std::string address;
    bool must_identify = false;    ///< a certificate is asked for
    bool has_certificate = false;  ///< one that is accepted
    std::string refusal;           ///< why not
};

/// The form of an answer.
struct Form {
    unsigned version = 11;
    bool keeps = false;
    bool is_head = false;
    [[nodiscard]] bool is_chunked(HttpResponse const& response) const { return response.stream && version >= 11; }
};

std::string head_text(HttpResponse const& response, Form const& form, std::string_view fields) {
    auto const reason = http::obsolete_reason(static_cast<http::status>(response.status));
    std::string text = form.version >= 11 ? "HTTP/1.1 " : "HTTP/1.0 ";
    text.append(std::to_string(response.status)).append(" ").append(reason.data(), reason.size());
    text.append("\r\nContent-Type: ").append(response.type);
    if (!response.allow.empty()) text.append("\r\nAllow: ").append(response.allow);
    if (response.asks_to_retry) text += "\r\nRetry-After: 1";
    text.append(fields).append(response.fields).append("\r\nCache-Control: no-store");
    if (form.is_chunked(response)) {
        text.append("\r\nTransfer-Encoding: chunked");
    } else if (!response.stream) {
        std::size_t const size =
            response.shared_body ? response.shared_body->size() + response.tail.size() : response.body.size();
        text.append("\r\nContent-Length: ").append(std::to_string(size));
    }
    // Says nothing where the version of HTTP does the same by default.
    if (form.keeps != (form.version > 10)) text.append("\r\nConnection: ").append(form.keeps ? "keep-alive" : "close");
    return text.append("\r\n\r\n");
}

/// Copies of the header fields that routes ask for: otherwise a body's trailer fields would be taken for the header's.
struct KeptFields {
    explicit KeptFields(http::fields const& head)
        : accept(view(head[http::field::accept])),
          host(view(head[http::field::host])),
          origin(view(head[http::field::origin])),
          authorization(view(head[http::field::authorization])),
          last_event_id(view(head["Last-Event-ID"])),
          user_agent(view(head[http::field::user_agent])) {}

    void lend(HttpRequest& request) const {
        request.accept = accept;
        request.host = host;
        request.origin = origin;
        request.authorization = authorization;
        request.last_event_id = last_event_id;
        request.user_agent = user_agent;
    }

    std::string accept;
    std::string host;
    std::string origin;
    std::string authorization;
    std::string last_event_id;
    std::string user_agent;
};

/// Counts things by peer and in total.
class PeerCount {
public:
    [[nodiscard]] bool has_room(std::string const& peer, std::size_t most, std::size_t most_of_peer) const {
        auto const found = counts_.find(peer);
        return sum_ < most && (found == counts_.end() || found->second < most_of_peer);
    }
    class Guard {
    public:
        Guard(PeerCount& count, std::string const& peer)
            : count_(count), place_(count.counts_.try_emplace(peer).first) {
            ++count_.sum_;
            ++place_->second;
        }
        Guard(Guard const&) = delete;
        Guard& operator=(Guard const&) = delete;
        ~Guard() {
            --count_.sum_;
            if (--place_->second == 0) count_.counts_.erase(place_);
        }

    private:
        PeerCount& count_;
        std::map<std::string, std::size_t>::iterator place_;
    };

private:
    std::map<std::string, std::size_t> counts_;  // without zeros
    std::size_t sum_ = 0;
};

}  // namespace

HttpResponse text_response(unsigned status, std::string text) {
    HttpResponse response;
    response.status = status;
    response.body = std::move(text.append("\n"));
    return response;
}

class HttpServer::Impl : public std::enable_shared_from_this<Impl> {
public:
    Impl(HttpSettings settings, Surroundings around, Hangups hangups)
        : settings_(std::move(settings)),
          around_(std::move(around)),
          hangups_(std::move(hangups)),
          turns_(around_.loop, cheap_turns),
          handshake_turns_(around_.loop),
          bodies_(around_.loop, settings_.limits.bodies),
          slot_freed_(around_.loop),
          slot_fell_silent_(around_.loop),
          idle_(around_.loop) {
        note_silence();
    }

    Result<> listen(UniqueFd socket) {
        int type = 0;
        int family = 0;
        socklen_t size = sizeof type;
        if (::getsockopt(socket.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
            ::getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) {
            int const err = errno;
            return fail(err, "use the listening socket");
        }
        if (type != SOCK_STREAM || (family != AF_INET && family != AF_INET6 && family != AF_UNIX))
            return fail(ErrorKind::unsupported, "use the listening socket", "it is not for TCP or Unix streams");
        auto listener = std::make_shared<asio::posix::stream_descriptor>(around_.loop);
        error_code failed;
        listener->assign(socket.get(), failed);
        if (failed) return fail(failed.value(), "use the listening socket");
        (void)socket.release();
        listener->native_non_blocking(true, failed);
        if (failed) return fail(failed.value(), "use the listening socket");
        listeners_.push_back(listener);
        spawn(around_.loop, accept(shared_from_this(), listener));
        return {};
    }

    void stop(std::function<void()> stopped) {
        if (std::exchange(is_stopping_, true)) return;
        stopped_ = std::move(stopped);
        error_code ignored;
        for (auto const& listener : listeners_)
            listener->close(ignored);
        close_if([](Slot const& slot) { return !slot.is_stalled() || slot.is_stream(); });
        for (HttpCaller* const caller : stream_callers_)
            caller->leave();
        if (open_ == 0) have_stopped();
    }

    [[nodiscard]] std::size_t open_connections() const { return open_; }
    [[nodiscard]] bool is_quiet() const { return silent_.size() == open_; }

private:
    /// One connection among all. While its peer is waited for it is in the list of silent ones, which is ordered by
    /// when that began.
    class Slot {
    public:
        Slot(Impl& server, Transport& transport, std::string peer)
            : server_(server), transport_(transport), peer_(std::move(peer)) {
            ++server_.open_;
            ++server_.around_.figures.open_connections;
        }
        Slot(Slot const&) = delete;
        Slot& operator=(Slot const&) = delete;
        ~Slot() {
            heard();
            end_handshake();
            --server_.open_;
            --server_.around_.figures.open_connections;
            server_.slot_freed_.notify_all();
            server_.slot_fell_silent_.notify_all();
            if (server_.open_ == 0 && server_.is_stopping_) server_.have_stopped();
            server_.note_silence();
        }

        void wait() {
            heard();
            place_ = server_.silent_.insert(server_.silent_.end(), this);
            server_.slot_fell_silent_.notify_all();
            server_.note_silence();
        }
        /// Waits for a peer that takes nothing of an answer: such a peer counts as silent.
        void stall() {
            wait();
            is_stalled_ = true;
        }
        void heard() {
            if (place_) server_.silent_.erase(*place_);
            place_.reset();
            is_stalled_ = false;
        }
        /// Ends the connection for the peer. Its descriptor stays open until its task ends.
        void break_off() {
            is_broken_off_ = true;
            transport_.break_off();
        }
        [[nodiscard]] bool is_broken_off() const { return is_broken_off_; }
        [[nodiscard]] bool is_stalled() const { return is_stalled_; }
        void begin_stream() { is_stream_ = had_stream_ = true; }
        void end_stream() { is_stream_ = false; }
        [[nodiscard]] bool had_stream() const { return had_stream_; }
        [[nodiscard]] bool is_stream() const { return is_stream_; }
        void begin_handshake() { handshake_ = server_.handshakes_.insert(server_.handshakes_.end(), this); }
        void end_handshake() {
            if (handshake_) server_.handshakes_.erase(*handshake_);
            handshake_.reset();
        }
        void close() {
            bool const is_writing = is_stalled_;
            heard();
            end_handshake();
            if (is_writing) break_off();
            if (!is_writing) transport_.close();
        }
        [[nodiscard]] std::string const& peer() const { return peer_; }

    private:
        Impl& server_;
        Transport& transport_;
        std::string peer_;
        std::optional<std::list<Slot*>::iterator> place_;
        std::optional<std::list<Slot*>::iterator> handshake_;
        bool is_stalled_ = false;
        bool is_stream_ = false;  // an answer without an end
        bool had_stream_ = false;
        bool is_broken_off_ = false;
    };

    /// Closes the silent connections that fit.
    template <class Which>
    void close_if(Which which) {
        for (auto next = silent_.begin(); next != silent_.end();) {
            Slot& slot = **next++;
            if (which(slot)) slot.close();
        }
    }

    // --- connections

    /// A new connection; an empty one when none is waiting. Errors: those of accept4(2) that matter.
    static Result<UniqueFd> accept_one(int listener) {
        UniqueFd socket{::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
        int const err = errno;
        // A peer that has already gone is not a problem.
        bool const is_nothing = err == EAGAIN || err == EINTR || err == ECONNABORTED;
        if (socket || is_nothing) return socket;
        return fail(err, "accept a connection");
    }

    static Task<> accept(std::shared_ptr<Impl> self, std::shared_ptr<asio::posix::stream_descriptor> listener) {
        // Accepts one connection in each round of what is ready: so all others get their turn, and the connection
        // before it is counted.
        for (; !self->is_stopping_; co_await yield(self->around_.loop)) {
            Result<UniqueFd> socket = accept_one(listener->native_handle());
            if (socket && !*socket) {
                error_code failed;
                co_await listener->async_wait(asio::posix::stream_descriptor::wait_read, into(failed));
                if (failed) co_return;
                continue;
            }
            std::string problem;
            try {
                if (socket) {
                    ++self->around_.figures.connections;
                    co_await self->make_room();
                    auto transport = Transport::adopt(self->around_.loop, std::move(*socket));
                    if (transport) spawn(self->around_.loop, converse(self, std::move(*transport)));
                    if (!transport) problem = transport.error().text();
                } else {
                    problem = socket.error().text();
                }
            } catch (std::exception const& error) {
                problem = error.what();
            }
            if (problem.empty()) continue;
            self->around_.log.write(LogLevel::warning, "accept-failed", problem);
            // Most likely descriptors or memory have run out: close a silent connection, and wait.
            (void)self->evict();
            co_await self->pause();
        }
    }

    Task<> pause() {
        asio::steady_timer timer(around_.loop, accept_pause);
        error_code ignored;
        co_await timer.async_wait(into(ignored));
    }

    /// Called when the last connection has ended.
    void have_stopped() {
        idle_.cancel();
        if (auto const stopped = std::exchange(stopped_, nullptr)) stopped();
    }

    /// Notes that nobody is being answered any more. If that lasts, the memory for answering is given back: open
    /// connections may be silent for long.
    void note_silence() {
        if (is_stopping_ || !is_quiet()) return;
        silent_since_ = std::chrono::steady_clock::now();
        if (idle_.due() == TimePoint::max()) wait_for_silence();
    }

    void wait_for_silence() {
        idle_.call_at(silent_since_ + idle_pause, [this] {
            if (!is_quiet()) return;  // the next silence counts from its own beginning
            if (std::chrono::steady_clock::now() < silent_since_ + idle_pause) return wait_for_silence();
            if (around_.idle) post(around_.loop, around_.idle);  // later: it may drop the pages that run here
        });
    }

    bool evict() {
        if (silent_.empty()) return false;
        ++around_.figures.evicted_connections;
        silent_.front()->close();
        return true;
    }

    /// Waits until a slot is free: connections that gave way stay open for a moment. If nobody is silent, all are being
    /// answered; the first of them that is silent again, or has gone, makes room.
    Task<> make_room() {
        while (open_ >= settings_.limits.connections) {
            if (evict()) {
                co_await slot_freed_.wait();
            } else {
                co_await slot_fell_silent_.wait();
            }
        }
    }

    static Task<> converse(std::shared_ptr<Impl> self, std::unique_ptr<Transport> stream) {
        Peer peer;
        peer.key = stream->peer_key();
        Slot slot(*self, *stream, peer.key);
        try {
            if (!self->around_.certificates || co_await self->begin_tls(*stream, slot, peer))
                co_await self->serve(*stream, slot, peer);
        } catch (std::exception const& error) {
            // Out of memory, for example: this connection ends, the others go on.
            self->around_.log.write(LogLevel::error, "connection-failed", error.what());
        }
    }

    /// Makes room for a handshake. One whose peer does not go on costs memory until its time is over; the one that has
    /// waited longest gives way, first among those of the same peer.
    void make_room_for_handshake(std::string const& peer) {
        std::size_t own = 0;
        Slot* oldest = nullptr;
        for (Slot* const one : handshakes_) {
            if (one->peer() != peer) continue;
            if (!oldest) oldest = one;
            ++own;
        }
        if (own >= settings_.limits.handshakes_of_peer) {
            oldest->close();
        } else if (handshakes_.size() >= settings_.limits.handshakes) {
            handshakes_.front()->close();
        }
    }

    /// Returns whether the peer may go on.
    Task<bool> begin_tls(Transport& stream, Slot& slot, Peer& peer) {
        // A peer that connects and says nothing must not cost the memory of a TLS connection.
        slot.wait();
        stream.expires_after(settings_.limits.request);
        if (!co_await stream.wait_readable()) co_return false;
        stream.expires_after(settings_.limits.request);
        make_room_for_handshake(peer.key);
        slot.begin_handshake();
        auto const context = around_.certificates->context();
        SSL* const tls = stream.prepare_tls(context.get());
        if (!tls) throw std::bad_alloc();
        ChainFaults faults;
        ChainFaults::attach(tls, &faults);
        auto const done = co_await stream.accept_tls(handshake_turns_, peer.key);
        ChainFaults::attach(tls, nullptr);
        slot.end_handshake();
        slot.heard();
        if (done) {
            identify(peer, stream, tls, faults);
        } else {
            ++around_.figures.failed_handshakes;
            around_.log.write(LogLevel::debug, "handshake-failed", done.error().text(),
                              {{"peer", stream.peer_address()}});
        }
        co_return done.has_value();
    }

    void identify(Peer& peer, Transport& stream, SSL* tls, ChainFaults const& faults) {
        peer.must_identify = !around_.certificates->files().authority.empty();
        if (!peer.must_identify) return;
        auto const shown = peer_certificate(tls, faults);
        auto const verdict = shown ? settings_.rules.check(*shown) : fail("no certificate was shown");
        peer.has_certificate = verdict.has_value();
        if (verdict) return;
        peer.refusal = verdict.error().text();
        peer.address = stream.peer_address();
    }

    // --- requests

    using Parser = http::request_parser<http::string_body>;

    Task<> serve(Transport& stream, Slot& slot, Peer& peer) {
        beast::flat_buffer buffer(settings_.limits.header_bytes + 64 * 1024);
        for (bool is_first = true;; is_first = false) {
            slot.wait();
            stream.expires_after(is_first ? settings_.limits.request : settings_.limits.idle);
            if (buffer.size() == 0) {
                // Not part of the conditions, because GCC 12 loses the frame there.
                bool goes_on = false;
                if (stream.has_tls()) goes_on = co_await stream.wait_readable();
                if (!stream.has_tls()) goes_on = co_await read_first(stream, buffer);
                if (!goes_on) break;
            } else {
                co_await yield(around_.loop);  // so that many requests from one peer do not keep others waiting
            }
            if (!co_await serve_one(stream, slot, peer, buffer)) break;
            if (is_stopping_) break;
            // While we wait for a peer, it has no memory but its slot.
            if (buffer.size() == 0) buffer.shrink_to_fit();
        }
        co_await finish(stream, slot, settings_.lingering);
    }

    /// Reads the first bytes into a small buffer, because the peer may be silent for long. Asio tries to read before it
    /// waits; waiting alone would cost one more system call. Returns false when nothing more comes.
    static Task<bool> read_first(Transport& stream, beast::flat_buffer& buffer) {
        std::array<char, first_read_size> first;
        std::size_t const size = co_await stream.read_some(first);
        if (size > 0) std::memcpy(buffer.prepare(size).data(), first.data(), size);
        buffer.commit(size);
        co_return size > 0;
    }

    /// Reads more into the buffer. Returns false when nothing more comes.
    static Task<bool> read_more(Transport& stream, beast::flat_buffer& buffer) {
        auto const place = buffer.prepare(read_size);
        std::size_t const size = co_await stream.read_some({static_cast<char*>(place.data()), place.size()});
        buffer.commit(size);
        co_return size > 0;
    }

    /// Reads until the first line is complete and can be parsed. Returns false when the peer has gone.
    Task<bool> read_line(Transport& stream, beast::flat_buffer& buffer, LineVerdict& verdict) {
        for (int empty_lines = 0;;) {
            empty_lines += skip_empty_lines(buffer);
            auto const place = buffer.data();
            verdict =
                check_request_line({static_cast<char*>(place.data()), place.size()}, settings_.limits.header_bytes);
            if (empty_lines > most_empty_lines) verdict = LineVerdict::bad;
            // A lone CR may turn into an empty line.
            bool const is_empty_line = buffer.size() == 1 && *static_cast<char*>(place.data()) == '\r';
            if (verdict != LineVerdict::incomplete && !is_empty_line) co_return true;
            if (!co_await read_more(stream, buffer)) co_return false;
        }
    }

    /// Reads until the header is complete, or the whole request. Errors: those of what was sent; partial_message when
    /// the peer has gone.
    static Task<error_code> read(Transport& stream, Parser& parser, beast::flat_buffer& buffer, bool is_whole) {
        parser.eager(is_whole);
        for (;;) {
            if (is_whole ? parser.is_done() : parser.is_header_done()) co_return error_code();
            error_code failed = http::error::need_more;
            if (buffer.size() > 0) buffer.consume(parser.put(buffer.data(), failed));
            if (!failed) continue;
            if (failed != http::error::need_more) co_return failed;
            if (buffer.size() + read_size > buffer.max_size()) co_return http::error::buffer_overflow;
            if (!co_await read_more(stream, buffer)) co_return http::error::partial_message;
        }
    }

    /// Returns whether the connection goes on.
    Task<bool> serve_one(Transport& stream, Slot& slot, Peer& peer, beast::flat_buffer& buffer) {
        stream.expires_after(settings_.limits.request);
        LineVerdict line = LineVerdict::incomplete;
        if (!co_await read_line(stream, buffer, line)) co_return false;
        if (line != LineVerdict::good) co_return co_await refuse_line(stream, slot, line);
        Parser parser;
        parser.header_limit(settings_.limits.header_bytes);
        parser.body_limit(settings_.limits.body_bytes);
        error_code failed = co_await read(stream, parser, buffer, false);
        if (failed) co_return co_await refuse(stream, slot, failed);
        auto const& head = parser.get();
        Form form;
        form.version = head.version();
        form.is_head = view(head.method_string()) == "HEAD";
        if (auto const fault = fault_of(head, form.version))
            co_return co_await refuse(stream, slot, fault->status, fault->reason);
        auto const target = parse_target(view(head.target()));
        if (!target) co_return co_await refuse(stream, slot, 400, "its target is not a URL");
        HttpRequest request;
        request.match = around_.router.match(view(head.method_string()), target->path);
        request.has_accepted_certificate = peer.has_certificate;
        request.peer = peer.key;
        std::string const query(target->query);
        std::string const authority(target->authority);  // replaces Host where there is one: RFC 9112, 3.2.2
        KeptFields const fields(head);
        bool const is_awaited = form.version >= 11 && !head[http::field::expect].empty();
        form.keeps = keeps_connection(head, form.version);
        if (auto refusal = refusal_of(request.match, peer)) {
            // The body is not worth waiting for; if there is one, the connection ends.
            form.keeps = form.keeps && parser.is_done();
            co_return co_await send(stream, slot, request.match.route, std::move(*refusal), form);
        }
        if (!parser.is_done()) {
            slot.heard();  // closing it would not end its wait here, and so make no room
            auto const place = co_await bodies_.take(peer.key);
            if (is_stopping_) co_return false;
            slot.wait();
            stream.expires_after(settings_.limits.request);
            if (is_awaited && !co_await stream.write("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
            failed = co_await read(stream, parser, buffer, true);
            if (failed) co_return co_await refuse(stream, slot, failed);
        }
        slot.heard();
        stream.expires_never();
        request.query = query;
        fields.lend(request);
        if (!authority.empty()) request.host = authority;
        request.body = parser.get().body();
        HttpResponse response = co_await answer(stream, peer, request);
        auto const written = std::move(response.written);
        form.keeps = form.keeps && !written;
        std::size_t const route = request.match.route;
        if (response.stream && !form.is_head) co_return co_await send_stream(stream, slot, route, response, form);
        bool const goes_on = co_await send(stream, slot, route, std::move(response), form);
        if (written) written();
        co_return goes_on;
    }

    /// Answers probes at once, and everything else in turn, while its peer is there.
    Task<HttpResponse> answer(Transport& stream, Peer const& peer, HttpRequest& request) {
        std::unique_ptr<Hangups::Watch> watch;
        HttpCaller caller(
            [this, &stream, &watch, &caller] { watch = hangups_.watch(stream.fd(), [&caller] { caller.leave(); }); });
        request.caller = &caller;
        if (around_.router.row(request.match.route).is_urgent) co_return co_await around_.answer(request);
        if (!answers_.has_room(peer.key, settings_.limits.answers, settings_.limits.answers_of_peer)) {
            HttpResponse busy = text_response(503, "too many requests at once");
            busy.asks_to_retry = true;
            co_return busy;
        }
        PeerCount::Guard const guard(answers_, peer.key);
        if (!turns_.take_now()) co_await turns_.take(peer.key);
        co_return co_await around_.answer(request);
    }

    /// The refusal of a request, before anything is done for it.
    std::optional<HttpResponse> refusal_of(RouteMatch const& match, Peer const& peer) {
        // This check is first, so that strangers do not learn which paths exist.
        if (peer.must_identify && !peer.has_certificate && !around_.router.row(match.route).is_open) {
            ++around_.figures.refused_peers;
            tell_of_refusal(peer);
            return text_response(401, "Client certificate was not approved");
        }
        switch (match.error) {
            case RouteError::none: return std::nullopt;
            case RouteError::bad_path: return text_response(400, "the path is malformed");
            case RouteError::not_found: return text_response(404, std::string(settings_.unknown_path));
            case RouteError::method: break;
        }
        HttpResponse response = text_response(405, "only " + std::string(match.allowed) + " is allowed here");
        response.allow = match.allowed;
        return response;
    }

    /// Logs a refusal at most once a second: a refused peer may come again as often as it likes.
    void tell_of_refusal(Peer const& peer) {
        TimePoint const now = std::chrono::steady_clock::now();
        if (now - refusal_told_ < std::chrono::seconds(1)) return;
        refusal_told_ = now;
        around_.log.write(LogLevel::info, "peer-refused", peer.refusal, {{"peer", peer.address}});
    }

    Task<bool> refuse_line(Transport& stream, Slot& slot, LineVerdict line) {
        switch (line) {
            case LineVerdict::bad_version:
                return send_refusal(stream, slot, text_response(505, "only HTTP/1 is spoken here"));
            case LineVerdict::too_long: return send_refusal(stream, slot, text_response(414, "the target is too long"));
            case LineVerdict::good:
            case LineVerdict::incomplete:
            case LineVerdict::bad: break;
        }
        return refuse(stream, slot, 400, "its first line is not one of HTTP");
    }

    /// Refuses a request that cannot be read. Returns false: the connection ends.
    Task<bool> refuse(Transport& stream, Slot& slot, error_code why) {
        HttpResponse response;
        if (why == http::error::header_limit || why == http::error::buffer_overflow) {
            response = text_response(431, "the header is too long");
        } else if (why == http::error::body_limit) {
            response = text_response(413, "the body is too long");
        } else if (why.category() == error_code(http::error::bad_method).category() &&
                   why != http::error::end_of_stream && why != http::error::partial_message) {
            co_return co_await refuse(stream, slot, 400, why.message());
        } else {
            co_return false;  // the peer has gone, or its time is over
        }
        co_return co_await send_refusal(stream, slot, std::move(response));
    }

    Task<bool> refuse(Transport& stream, Slot& slot, unsigned status, std::string why) {
        return send_refusal(stream, slot, text_response(status, "the request cannot be read: " + why));
    }

    Task<bool> send_refusal(Transport& stream, Slot& slot, HttpResponse response) {
        Form const form;  // named: inside a co_await expression GCC 12 would destroy it twice
        co_return co_await send(stream, slot, around_.router.rows().size(), std::move(response), form);
    }

    Task<bool> send(Transport& stream, Slot& slot, std::size_t route, HttpResponse response, Form form) {
        around_.answered(route, response.status);
        form.keeps = form.keeps && !is_stopping_;
        std::string text = head_text(response, form, settings_.fields);
        std::array<std::string_view, 3> parts;
        if (!form.is_head && response.shared_body) {
            parts[1] = *response.shared_body;
            parts[2] = response.tail;
        } else if (!form.is_head) {
            text += response.body;
        }
        parts[0] = text;
        co_return co_await write(stream, slot, parts, settings_.limits.answer) && form.keeps;
    }

    /// Returns whether the connection goes on.
    static Task<bool> write(Transport& stream, Slot& slot, std::span<std::string_view> parts, Duration limit) {
        for (;;) {
            if (!stream.send_some(parts)) co_return false;
            if (parts.empty()) co_return true;
            slot.stall();
            if (limit == Duration::max()) stream.expires_never();
            if (limit != Duration::max()) stream.expires_after(limit);
            bool const goes_on = co_await stream.wait_writable();
            slot.heard();
            stream.expires_never();
            if (!goes_on) co_return false;
        }
    }

    // --- streams

    /// An answer in chunks; in HTTP/1.0 one that ends with its connection.
    class Stream final : public HttpStream {
    public:
        Stream(Transport& transport, Slot& slot, std::string head, bool is_chunked, Duration limit)
            : transport_(transport), slot_(slot), head_(std::move(head)), is_chunked_(is_chunked), limit_(limit) {}

        Task<bool> write(std::span<Piece const> pieces) override {
            std::size_t size = 0;
            for (Piece const& piece : pieces)
                size += piece->size();
            if (size == 0 || is_broken_) co_return !is_broken_;  // an empty chunk would end the answer
            std::array<char, 20> length;
            std::vector<std::string_view> parts;
            parts.reserve(pieces.size() + 3);
            parts.emplace_back(head_);
            if (is_chunked_) parts.push_back(chunk_head(length, size));
            for (Piece const& piece : pieces)
                parts.emplace_back(*piece);
            if (is_chunked_) parts.emplace_back("\r\n");
            is_broken_ = !co_await Impl::write(transport_, slot_, parts, limit_);
            head_.clear();
            co_return !is_broken_;
        }
        void limit_stalls(Duration limit) override { limit_ = limit; }
        HttpCaller& caller() override { return caller_; }

        /// Returns whether everything was sent.
        Task<bool> finish() {
            if (is_broken_) co_return false;
            std::array<std::string_view, 2> parts{head_, is_chunked_ ? last_chunk : std::string_view()};
            co_return co_await Impl::write(transport_, slot_, parts, limit_);
        }

    private:
        static std::string_view chunk_head(std::array<char, 20>& place, std::size_t size) {
            char* end = std::to_chars(place.data(), place.data() + place.size() - 2, size, 16).ptr;
            *end++ = '\r';
            *end++ = '\n';
            return {place.data(), end};
        }

        Transport& transport_;
        Slot& slot_;
        std::string head_;  // goes out with the first piece
        bool is_chunked_;
        Duration limit_;
        bool is_broken_ = false;
        HttpCaller caller_;
    };

    /// An entry in a list of answers that are being sent, in the order in which they began.
    template <class T>
    class Listed {
    public:
        Listed(std::list<T*>& list, T& one) : list_(list), place_(list.insert(list.end(), &one)) {}
        Listed(Listed const&) = delete;
        Listed& operator=(Listed const&) = delete;
        ~Listed() { list_.erase(place_); }

    private:
        std::list<T*>& list_;
        std::list<T*>::iterator place_;
    };

    Task<bool> send_stream(Transport& stream, Slot& slot, std::size_t route, HttpResponse& response, Form form) {
        if (response.is_endless && !make_room_for_stream()) {
            ++around_.figures.refused_streams;
            HttpResponse busy = text_response(503, "too many listeners");
            busy.asks_to_retry = true;
            co_return co_await send(stream, slot, route, std::move(busy), form);
        }
        around_.answered(route, response.status);
        form.keeps = form.keeps && !is_stopping_ && form.is_chunked(response);
        stream.limit_send_buffer(settings_.limits.send_buffer);
        Stream out(stream, slot, head_text(response, form, settings_.fields), form.is_chunked(response),
                   settings_.limits.answer);
        if (response.is_endless) {
            co_await run_endless(stream, slot, out, response);
        } else {
            co_await run_long(slot, out, response);
        }
        co_return co_await out.finish() && form.keeps && !is_stopping_;
    }

    Task<> run_endless(Transport& stream, Slot& slot, Stream& out, HttpResponse& response) {
        Listed<HttpCaller> const listed(stream_callers_, out.caller());
        auto const watch = hangups_.watch(stream.fd(), [&out] { out.caller().leave(); });
        slot.begin_stream();
        ++around_.figures.open_streams;
        struct End {  // also runs when an exception is thrown
            Impl& server;
            Slot& slot;
            ~End() {
                slot.end_stream();
                --server.around_.figures.open_streams;
            }
        };
        End const end{*this, slot};
        if (is_stopping_) out.caller().leave();
        co_await response.stream(out);
    }

    /// Sends a long answer. A peer that reads slowly, or not at all, must not keep others from theirs: the one that
    /// began first gives way.
    Task<> run_long(Slot& slot, Stream& out, HttpResponse& response) {
        auto const goes_on = [](Slot const* other) { return !other->is_broken_off(); };
        if (std::ranges::count_if(long_answers_, goes_on) >=
            static_cast<std::ptrdiff_t>(settings_.limits.long_answers)) {
            ++around_.figures.evicted_answers;
            (*std::ranges::find_if(long_answers_, goes_on))->break_off();
        }
        Listed<Slot> const listed(long_answers_, slot);
        co_await response.stream(out);
    }

    /// Returns whether there is room. A listener that reads nothing gives way to one that may read.
    bool make_room_for_stream() {
        if (stream_callers_.size() < settings_.limits.streams) return true;
        auto const stalled = std::ranges::find_if(silent_, [](Slot const* slot) { return slot->is_stream(); });
        if (stalled == silent_.end()) return false;
        ++around_.figures.evicted_streams;
        (*stalled)->close();
        return true;
    }

    /// Says that nothing more comes, and waits a moment until the peer says so, too. Closing at once while the peer is
    /// still sending would reset the connection, and with it the last answer.
    static Task<> finish(Transport& stream, Slot& slot, Duration lingering) {
        if (!stream.is_open()) co_return;
        slot.wait();
        stream.expires_after(lingering);
        co_await stream.end_writing();
        if (slot.had_stream()) co_return;  // a listener sends nothing more
        std::array<char, 1024> dropped;
        for (std::size_t total = 0; total < most_lingering_bytes;) {
            std::size_t const size = co_await stream.drop_some(dropped);
            if (size == 0) break;
            total += size;
        }
        slot.heard();
    }

    HttpSettings settings_;
    Surroundings around_;
    Hangups hangups_;
    Turns turns_;
    Turns handshake_turns_;
    std::vector<std::shared_ptr<asio::posix::stream_descriptor>> listeners_;
    std::list<Slot*> silent_;                // the one that has been silent longest comes first
    std::list<Slot*> handshakes_;            // under way, the oldest first
    std::list<HttpCaller*> stream_callers_;  // those of endless streams
    std::list<Slot*> long_answers_;          // being sent, the one that began first comes first
    PeerCount answers_;
    Places bodies_;
    Condition slot_freed_;
    Condition slot_fell_silent_;  // or was freed
    Timer idle_;
    TimePoint silent_since_{};
    std::function<void()> stopped_;
    std::size_t open_ = 0;
    TimePoint refusal_told_{};
    bool is_stopping_ = false;
};

Result<HttpServer> HttpServer::create(HttpSettings settings, Surroundings around) {
    Hangups hangups = TRY(Hangups::create(around.loop));
    return HttpServer(std::make_shared<Impl>(std::move(settings), std::move(around), std::move(hangups)));
}

Result<> HttpServer::listen(UniqueFd socket) { return impl_->listen(std::move(socket)); }

void HttpServer::stop(std::function<void()> stopped) { impl_->stop(std::move(stopped)); }

std::size_t HttpServer::open_connections() const { return impl_->open_connections(); }

bool HttpServer::is_quiet() const { return impl_->is_quiet(); }

}  // namespace triton::net
