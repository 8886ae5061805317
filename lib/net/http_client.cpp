#include "lib/net/http_client.h"

#include <algorithm>
#include <span>
#include <utility>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <openssl/x509_vfy.h>

#include "lib/base/duration.h"
#include "lib/net/resolver.h"

namespace triton::net {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using Parser = http::response_parser<http::string_body>;

namespace {

constexpr std::size_t piece_bytes = 16 << 10;
constexpr std::size_t most_addresses = 4;  // of one name that are tried

/// Why there was no answer although there was a connection.
std::string reason_of(Error const& why, Duration limit) {
    if (why.kind == ErrorKind::timeout) return "no answer within " + format_duration(limit);
    if (why.kind == ErrorKind::unavailable) return "the connection ended before the answer did";
    if (why.kind == ErrorKind::corrupt) return "TLS: " + why.reason;
    return why.text();
}

/// Why what was received is not an answer.
std::string reason_of(error_code why) {
    if (why == http::error::header_limit || why == http::error::body_limit || why == http::error::buffer_overflow)
        return "the answer is too long";
    if (why == http::error::partial_message || why == http::error::end_of_stream)
        return "the connection ended before the answer did";
    return "the answer is not HTTP";
}

/// The host as certificates and TLS spell it: without the dot that may end an absolute name.
std::string bare_name(std::string name) {
    if (name.ends_with('.')) name.pop_back();
    return name;
}

std::string body_text(HttpQuestion const& question, std::string const& authority) {
    std::string text = question.method + " " + question.target + " HTTP/1.1\r\nHost: " + authority + "\r\n";
    for (HttpField const& field : question.fields)
        text += field.name + ": " + field.value + "\r\n";
    if (!question.body.empty()) text += "Content-Length: " + std::to_string(question.body.size()) + "\r\n";
    return text + "\r\n" + question.body;
}

template <class Message>
HttpAnswer head_of(Message const& message) {
    HttpAnswer answer;
    if (message.result_int() <= 999) answer.status = static_cast<int>(message.result_int());
    for (auto const& field : message) {
        answer.fields.push_back(
            {{field.name_string().data(), field.name_string().size()}, {field.value().data(), field.value().size()}});
    }
    return answer;
}

}  // namespace

std::string_view HttpAnswer::field(std::string_view name) const {
    auto const found = std::ranges::find_if(fields, [name](HttpField const& one) {
        return beast::iequals({one.name.data(), one.name.size()}, {name.data(), name.size()});
    });
    return found == fields.end() ? std::string_view() : std::string_view(found->value);
}

std::string HttpOrigin::authority() const {
    bool const is_v6 = host.find(':') != host.npos;
    return (is_v6 ? "[" + host + "]" : bare_name(host)) + ":" + std::to_string(port);
}

struct HttpClient::Connection {
    explicit Connection(Loop& loop) : transport(Transport::to_connect(loop)) {}

    std::unique_ptr<Transport> transport;
    beast::flat_buffer buffer;
    bool is_used = false;  // an answer has come over this connection

    /// Gives a parser what has been received, or waits for more. Errors, in words: those of the connection, and of the
    /// answer.
    Task<Result<>> read_into(Parser& parser, Duration limit);
};

/// The result of one question.
struct HttpClient::Attempt {
    Result<HttpAnswer> answer;
    bool had_ended = false;  // a kept connection had ended before the question was sent
};

struct HttpClient::Shared : std::enable_shared_from_this<Shared> {
    Shared(Loop& with, HttpOrigin at, Context by, HttpClientLimits const& within)
        : loop(with),
          origin(std::move(at)),
          authority(origin.authority()),
          context(std::move(by)),
          limits(within),
          resolver(loop, {.limit = within.resolve}),
          idle(loop) {}

    Loop& loop;
    HttpOrigin origin;
    std::string authority;
    Context context;
    HttpClientLimits limits;
    Resolver resolver;
    ConnectionPointer kept;  // a connection kept for questions; null while one is under way
    std::list<std::weak_ptr<Connection>> open;
    Timer idle;
    bool is_stopped = false;

    void keep(ConnectionPointer connection) {
        kept = std::move(connection);
        idle.call_at(std::chrono::steady_clock::now() + limits.idle, [weak = weak_from_this()] {
            auto const self = weak.lock();
            if (!self || !self->kept) return;
            self->kept->transport->close();
            self->kept.reset();
        });
    }

    void limit(Parser& parser, std::uint64_t body_bytes) const {
        parser.header_limit(static_cast<std::uint32_t>(limits.header_bytes));
        parser.body_limit(body_bytes);
    }
};

HttpClient::HttpClient(Loop& loop, HttpOrigin origin, Context context, HttpClientLimits const& limits)
    : shared_(std::make_shared<Shared>(loop, std::move(origin), std::move(context), limits)) {}

HttpClient::~HttpClient() { stop(); }

void HttpClient::stop() {
    shared_->is_stopped = true;
    shared_->kept.reset();
    shared_->idle.cancel();
    shared_->resolver.stop();
    for (auto const& weak : shared_->open) {
        if (auto const connection = weak.lock()) connection->transport->close();
    }
}

void HttpClient::Lines::close() {
    is_closed_ = true;
    if (transport_) transport_->close();
}

Task<Result<HttpAnswer>> HttpClient::ask(HttpQuestion question) { return run_ask(shared_, std::move(question)); }

Task<Result<HttpAnswer>> HttpClient::follow(std::shared_ptr<Lines> lines, HttpQuestion question) {
    return run_follow(shared_, std::move(lines), std::move(question));
}

Task<Result<HttpClient::ConnectionPointer>> HttpClient::connect(std::shared_ptr<Shared> shared) {
    Certificates::Context context;
    if (shared->context) {
        auto made = shared->context();
        if (!made) co_return std::unexpected(std::move(made).error());
        context = std::move(*made);
    }
    auto addresses = co_await shared->resolver.resolve(shared->origin.host);
    if (!addresses) co_return std::unexpected(std::move(addresses).error());
    if (addresses->size() > most_addresses) addresses->resize(most_addresses);
    std::string failures;
    for (Address const& address : *addresses) {
        auto connection = co_await connect_to(shared, context, address);
        if (connection) co_return connection;
        failures += (failures.empty() ? "" : "; ") + connection.error().text();
        if (shared->is_stopped) break;
    }
    co_return fail(ErrorKind::unavailable, std::move(failures));
}

/// Connects by TCP and TLS together: so a server that accepts connections and then does nothing does not hide others of
/// the same name.
Task<Result<HttpClient::ConnectionPointer>> HttpClient::connect_to(std::shared_ptr<Shared> shared,
                                                                   Certificates::Context context, Address address) {
    std::string const& host = shared->origin.host;
    std::string const place =
        parse_address(host) ? shared->authority : shared->authority + " at " + address.to_string();
    auto const connection = std::make_shared<Connection>(shared->loop);
    std::erase_if(shared->open, [](auto const& weak) { return weak.expired(); });
    shared->open.push_back(connection);
    Transport& transport = *connection->transport;
    transport.expires_after(shared->limits.connect);
    auto const connected = co_await transport.connect(address, shared->origin.port);
    if (!connected) {
        Error const& why = connected.error();
        bool const is_late = why.kind == ErrorKind::timeout;
        co_return fail(why.kind,
                       "cannot connect to " + place + ": " +
                           (is_late ? "no answer within " + format_duration(shared->limits.connect) : why.text()));
    }
    if (shared->is_stopped)
        co_return fail(ErrorKind::refused, "cannot connect to " + place + ": the client is stopped");
    transport.watch_over_peer();
    if (!context) co_return connection;
    SSL* const tls = transport.prepare_tls(context.get());
    if (!tls || !expect_host(tls, bare_name(host))) co_return fail("cannot check the certificate of " + place);
    transport.expires_after(shared->limits.handshake);
    auto const secured = co_await transport.connect_tls();
    if (secured) co_return connection;
    long const verdict = ::SSL_get_verify_result(tls);
    if (verdict != X509_V_OK)
        co_return fail("the certificate of " + place + " is not trusted: " + ::X509_verify_cert_error_string(verdict));
    co_return fail(secured.error().kind,
                   "cannot agree on TLS with " + place + ": " + reason_of(secured.error(), shared->limits.handshake));
}

Task<Result<>> HttpClient::Connection::read_into(Parser& parser, Duration limit) {
    if (buffer.size() > 0) {
        error_code failed;
        std::size_t const taken = parser.put(buffer.data(), failed);
        buffer.consume(taken);
        if (failed && failed != http::error::need_more) co_return fail(reason_of(failed));
        if (taken > 0) co_return Result<>();  // it may be a whole line, which waiting for more would hold back
    }
    auto const place = buffer.prepare(piece_bytes);
    std::span<char> const room(static_cast<char*>(place.data()), place.size());
    auto const size = co_await transport->receive(room);
    if (!size) co_return fail(size.error().kind, reason_of(size.error(), limit));
    buffer.commit(*size);
    if (*size > 0) co_return Result<>();
    error_code incomplete;
    if (parser.got_some()) parser.put_eof(incomplete);  // this is how an answer without a length ends
    if (incomplete || !parser.is_done())
        co_return fail(ErrorKind::unavailable, "the connection ended before the answer did");
    co_return Result<>();
}

Task<HttpClient::Attempt> HttpClient::exchange(std::shared_ptr<Shared> shared, ConnectionPointer connection,
                                               HttpQuestion const& question) {
    Duration const limit = shared->limits.answer;
    Transport& transport = *connection->transport;
    transport.expires_after(limit);
    std::string const text = body_text(question, shared->authority);
    Parser parser;
    parser.eager(true);
    shared->limit(parser, shared->limits.body_bytes);
    auto going = co_await transport.send(text);
    if (!going) going = fail(going.error().kind, reason_of(going.error(), limit));
    while (going && !parser.is_done())
        going = co_await connection->read_into(parser, limit);
    if (!going) {
        bool const had_ended =
            connection->is_used && going.error().kind == ErrorKind::unavailable && !parser.got_some();
        co_return Attempt{fail(going.error().kind, shared->authority + ": " + going.error().text()), had_ended};
    }
    connection->is_used = true;
    bool const goes_on = parser.get().keep_alive();
    HttpAnswer answer = head_of(parser.get());
    answer.body = std::move(parser.get().body());
    transport.expires_never();
    if (goes_on && !shared->is_stopped) {
        shared->keep(std::move(connection));
    } else {
        transport.close();
    }
    co_return Attempt{std::move(answer)};
}

Task<Result<HttpAnswer>> HttpClient::run_ask(std::shared_ptr<Shared> shared, HttpQuestion question) {
    if (auto const kept = std::exchange(shared->kept, nullptr)) {
        shared->idle.cancel();
        Attempt attempt = co_await exchange(shared, kept, question);
        if (!attempt.had_ended) co_return std::move(attempt.answer);
    }
    auto const fresh = co_await connect(shared);
    if (!fresh) co_return std::unexpected(fresh.error());
    Attempt attempt = co_await exchange(shared, *fresh, question);
    co_return std::move(attempt.answer);
}

namespace {

/// Passes on the whole lines of `text`; the beginning of a line is left in it. The first `searched` bytes have no
/// newline. Stops when `goes_on` returns false.
template <class Take, class GoesOn>
void take_lines(std::string& text, std::size_t searched, Take take, GoesOn goes_on) {
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n', searched); end != text.npos; end = text.find('\n', begin)) {
        if (!goes_on()) return;
        if (end > begin) take(text.substr(begin, end - begin));
        begin = end + 1;
    }
    text.erase(0, begin);
    if (text.empty() && text.capacity() > piece_bytes) text = std::string();
}

}  // namespace

Task<Result<HttpAnswer>> HttpClient::run_follow(std::shared_ptr<Shared> shared, std::shared_ptr<Lines> lines,
                                                HttpQuestion question) {
    auto const fresh = co_await connect(shared);
    if (!fresh) co_return std::unexpected(fresh.error());
    auto const connection = *fresh;
    if (lines->is_closed_) co_return fail(ErrorKind::refused, "closed");
    Transport& transport = *connection->transport;
    lines->transport_ = &transport;
    struct Forget {  // the connection ends with this coroutine
        Lines& lines;
        ~Forget() { lines.transport_ = nullptr; }
    } const forget{*lines};

    Duration const limit = shared->limits.answer;
    transport.expires_after(limit);
    std::string const text = body_text(question, shared->authority);
    Parser parser;
    shared->limit(parser, UINT64_MAX);  // unlimited: lines have a limit of their own
    auto going = co_await transport.send(text);
    if (!going) going = fail(going.error().kind, reason_of(going.error(), limit));
    while (going && !parser.is_header_done())
        going = co_await connection->read_into(parser, limit);
    if (!going) co_return fail(going.error().kind, shared->authority + ": " + going.error().text());
    HttpAnswer answer = head_of(parser.get());
    bool const is_open = answer.status == 200;
    if (is_open) {
        transport.expires_never();
        if (!lines->is_closed_) lines->on_open_();
    }

    std::string& body = parser.get().body();
    parser.eager(true);
    bool is_too_long = false;
    while (going && !parser.is_done() && !is_too_long) {
        std::size_t const searched = body.size();
        going = co_await connection->read_into(parser, limit);
        if (is_open) take_lines(body, searched, lines->on_line_, [&] { return !lines->is_closed_; });
        if (lines->is_closed_) co_return answer;
        is_too_long = body.size() > shared->limits.body_bytes;
    }
    if (is_open && is_too_long) co_return fail(shared->authority + ": a line is too long");
    if (is_open) {
        if (!going) answer.body = going.error().text();
        co_return answer;
    }
    answer.body = !going && body.empty() ? going.error().text() : std::move(body);
    co_return answer;
}

}  // namespace triton::net
