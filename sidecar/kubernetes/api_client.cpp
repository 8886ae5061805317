#include "sidecar/kubernetes/api_client.h"

#include <array>
#include <charconv>
#include <list>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <netinet/tcp.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include "lib/base/duration.h"

namespace triton::kubernetes {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

using TlsStream = asio::ssl::stream<beast::tcp_stream>;

constexpr std::size_t piece_bytes = 16 << 10;
constexpr std::size_t most_addresses = 4;  // of one name that are tried

auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

bool is_end(error_code why) {
    return why == asio::error::eof || why == asio::ssl::error::stream_truncated || why == http::error::end_of_stream ||
           why == http::error::partial_message || why == asio::error::connection_reset ||
           why == asio::error::broken_pipe;
}

std::string reason(error_code why, Duration limit) {
    if (why == beast::error::timeout) return "no answer within " + format_duration(limit);
    if (is_end(why)) return "the connection ended before the answer did";
    if (why == http::error::header_limit || why == http::error::body_limit) return "the answer is too long";
    if (why.category() == error_code(http::error::bad_version).category()) return "the answer is not HTTP";
    if (why.category() == asio::error::get_ssl_category()) return "TLS: " + why.message();
    return errno_text(why.value());
}

/// Peers that have vanished are found out by the kernel, on a watch too, where nothing is sent for minutes.
void watch_over(tcp::socket& socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    auto const set = [&socket](int option, int value) {
        (void)::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);  // nice to have
    };
    set(TCP_KEEPIDLE, 30);
    set(TCP_KEEPINTVL, 10);
    set(TCP_KEEPCNT, 3);
    set(TCP_USER_TIMEOUT, 30'000);
}

/// In seconds. The other form, a date, is none of this API.
std::optional<Duration> retry_after(std::string_view text) {
    std::uint32_t seconds = 0;
    auto const [end, failed] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return std::chrono::seconds(seconds);
}

template <class Fields>
std::optional<Duration> retry_after_of(Fields const& fields) {
    auto const value = fields[http::field::retry_after];
    return retry_after({value.data(), value.size()});
}

/// As certificates and TLS have it: without the dot that may end an absolute name.
std::string bare_name(std::string name) {
    if (name.ends_with('.')) name.pop_back();
    return name;
}

bool is_address(std::string const& host) {
    error_code failed;
    asio::ip::make_address(host, failed);
    return !failed;
}

std::string authority_of(ApiServer const& server) {
    bool const is_v6 = server.host.find(':') != server.host.npos;
    std::string const host = is_v6 ? "[" + server.host + "]" : bare_name(server.host);
    return host + ":" + std::to_string(server.port);
}

/// That the certificate must be good for this host. A subject's common name counts for nothing, as for all clients of
/// Kubernetes.
bool expect_host(SSL* ssl, std::string const& host) {
    X509_VERIFY_PARAM* const expected = ::SSL_get0_param(ssl);
    if (is_address(host)) return ::X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1;
    std::string const name = bare_name(host);
    ::X509_VERIFY_PARAM_set_hostflags(expected,
                                      X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return ::X509_VERIFY_PARAM_set1_host(expected, name.c_str(), name.size()) == 1 &&
           SSL_set_tlsext_host_name(ssl, name.c_str()) == 1;
}

}  // namespace

struct ApiClient::Connection {
    Connection(asio::io_context& io, std::shared_ptr<asio::ssl::context> with)
        : context(std::move(with)), stream(io, *context) {}

    std::shared_ptr<asio::ssl::context> context;
    TlsStream stream;
    beast::flat_buffer buffer;
    bool is_used = false;  // an answer has come over it

    beast::tcp_stream& tcp() { return stream.next_layer(); }
    void close() { tcp().close(); }
};

struct ApiClient::Shared : std::enable_shared_from_this<Shared> {
    Shared(asio::io_context& with, ApiServer at, std::string agent, ServiceAccount of, ApiLimits const& within)
        : io(with),
          server(std::move(at)),
          authority(authority_of(server)),
          user_agent(std::move(agent)),
          account(std::move(of)),
          limits(within),
          resolver(io, {.limit = within.resolve}),
          idle(io) {}

    asio::io_context& io;
    ApiServer server;
    std::string authority;
    std::string user_agent;
    ServiceAccount account;
    ApiLimits limits;
    net::Resolver resolver;
    std::shared_ptr<Connection> kept;  // for requests; none while one is under way
    std::list<std::weak_ptr<Connection>> open;
    asio::steady_timer idle;
    bool is_stopped = false;

    void keep(std::shared_ptr<Connection> connection) {
        kept = std::move(connection);
        idle.expires_after(limits.idle);
        idle.async_wait([weak = weak_from_this()](error_code cancelled) {
            auto const self = weak.lock();
            if (!self || cancelled || !self->kept) return;
            self->kept->close();
            self->kept.reset();
        });
    }

    http::request<http::string_body> message(ApiRequest const& request, std::string const& token) const {
        http::request<http::string_body> message;
        message.method_string({request.method.data(), request.method.size()});
        message.target({request.target.data(), request.target.size()});
        message.version(11);
        message.set(http::field::host, authority);
        message.set(http::field::user_agent, user_agent);
        message.set(http::field::authorization, "Bearer " + token);
        message.set(http::field::accept,
                    request.wants_metadata_only
                        ? "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
                        : "application/json");
        if (request.content_type.empty()) return message;
        message.set(http::field::content_type, {request.content_type.data(), request.content_type.size()});
        message.body() = request.body;
        message.prepare_payload();
        return message;
    }
};

ApiClient::ApiClient(asio::io_context& io, ApiServer server, std::string user_agent, ServiceAccount account,
                     ApiLimits const& limits)
    : shared_(std::make_shared<Shared>(io, std::move(server), std::move(user_agent), std::move(account), limits)) {}

ApiClient::~ApiClient() { stop(); }

void ApiClient::stop() {
    shared_->is_stopped = true;
    shared_->kept.reset();
    shared_->idle.cancel();
    shared_->resolver.stop();
    for (auto const& weak : shared_->open) {
        if (auto const connection = weak.lock()) connection->close();
    }
}

std::shared_ptr<ApiClient::Watch> ApiClient::make_watch(std::function<void()> on_open,
                                                        std::function<void(std::string)> on_line) {
    auto watch = std::make_shared<Watch>();
    watch->on_open = std::move(on_open);
    watch->on_line = std::move(on_line);
    return watch;
}

void ApiClient::Watch::close() {
    is_closed = true;
    error_code ignored;
    if (socket) socket->close(ignored);
}

awaitable<Result<ApiAnswer>> ApiClient::request(ApiRequest request) { return run_request(shared_, std::move(request)); }

awaitable<Result<ApiAnswer>> ApiClient::watch(std::shared_ptr<Watch> watch, ApiRequest request) {
    return run_watch(shared_, std::move(watch), std::move(request));
}

awaitable<Result<std::shared_ptr<ApiClient::Connection>>> ApiClient::connect(std::shared_ptr<Shared> shared) {
    auto const tls = shared->account.tls();
    if (!tls) co_return std::unexpected(tls.error());
    auto addresses = co_await shared->resolver.resolve(shared->server.host);
    if (!addresses) co_return std::unexpected(std::move(addresses).error());
    if (addresses->size() > most_addresses) addresses->resize(most_addresses);
    std::string failures;
    for (asio::ip::address const& address : *addresses) {
        auto connection = co_await connect_to(shared, *tls, address);
        if (connection) co_return connection;
        failures += (failures.empty() ? "" : "; ") + connection.error().text();
        if (shared->is_stopped) break;
    }
    co_return fail(std::move(failures));
}

/// TCP and TLS: one server of several that accepts connections and no more is not to hide the others.
awaitable<Result<std::shared_ptr<ApiClient::Connection>>> ApiClient::connect_to(std::shared_ptr<Shared> shared,
                                                                                std::shared_ptr<asio::ssl::context> tls,
                                                                                asio::ip::address address) {
    std::string const& host = shared->server.host;
    std::string const place = is_address(host) ? shared->authority : shared->authority + " at " + address.to_string();
    auto const connection = std::make_shared<Connection>(shared->io, std::move(tls));
    std::erase_if(shared->open, [](auto const& weak) { return weak.expired(); });
    shared->open.push_back(connection);
    error_code failed;
    Duration const connect_limit = shared->limits.connect;
    connection->tcp().expires_after(connect_limit);
    co_await connection->tcp().async_connect(tcp::endpoint(address, shared->server.port), into(failed));
    if (!failed && shared->is_stopped) failed = asio::error::operation_aborted;
    if (failed) co_return fail("cannot connect to " + place + ": " + reason(failed, connect_limit));
    watch_over(connection->tcp().socket());
    SSL* const ssl = connection->stream.native_handle();
    if (!expect_host(ssl, host)) co_return fail("cannot check the certificate of " + place);
    Duration const handshake_limit = shared->limits.handshake;
    connection->tcp().expires_after(handshake_limit);
    co_await connection->stream.async_handshake(TlsStream::client, into(failed));
    if (!failed) co_return connection;
    long const verdict = ::SSL_get_verify_result(ssl);
    if (verdict != X509_V_OK)
        co_return fail("the certificate of " + place + " is no good: " + ::X509_verify_cert_error_string(verdict));
    co_return fail("cannot agree on TLS with " + place + ": " + reason(failed, handshake_limit));
}

awaitable<Result<ApiAnswer>> ApiClient::exchange(std::shared_ptr<Shared> shared, std::shared_ptr<Connection> connection,
                                                 ApiRequest const& request, std::string const& token) {
    Duration const limit = shared->limits.answer;
    connection->tcp().expires_after(limit);
    auto const message = shared->message(request, token);
    error_code failed;
    co_await http::async_write(connection->stream, message, into(failed));
    http::response_parser<http::string_body> parser;
    parser.header_limit(static_cast<std::uint32_t>(shared->limits.header_bytes));
    parser.body_limit(shared->limits.body_bytes);
    bool const was_reused = connection->is_used;
    if (!failed) co_await http::async_read(connection->stream, connection->buffer, parser, into(failed));
    // ENOTCONN: nothing came over a connection that had been kept too long.
    if (failed && was_reused && is_end(failed) && !parser.got_some()) co_return fail(ENOTCONN, "use the connection");
    if (failed) co_return fail(shared->authority + ": " + reason(failed, limit));
    connection->is_used = true;
    auto response = parser.release();
    ApiAnswer answer{response.result_int() > 999 ? 0 : static_cast<int>(response.result_int()),
                     retry_after_of(response), std::move(response.body())};
    connection->tcp().expires_never();
    if (response.keep_alive() && !shared->is_stopped) {
        shared->keep(std::move(connection));
    } else {
        connection->close();
    }
    co_return answer;
}

awaitable<Result<ApiAnswer>> ApiClient::run_request(std::shared_ptr<Shared> shared, ApiRequest request) {
    auto const token = shared->account.token(request.with_fresh_token);
    if (!token) co_return std::unexpected(token.error());
    if (auto const kept = std::exchange(shared->kept, nullptr)) {
        shared->idle.cancel();
        auto answer = co_await exchange(shared, kept, request, *token);
        if (answer || answer.error().kind != ErrorKind::unavailable) co_return answer;
    }
    auto const fresh = co_await connect(shared);
    if (!fresh) co_return std::unexpected(fresh.error());
    co_return co_await exchange(shared, *fresh, request, *token);
}

awaitable<Result<ApiAnswer>> ApiClient::run_watch(std::shared_ptr<Shared> shared, std::shared_ptr<Watch> watch,
                                                  ApiRequest request) {
    auto const token = shared->account.token(request.with_fresh_token);
    if (!token) co_return std::unexpected(token.error());
    auto const fresh = co_await connect(shared);
    if (!fresh) co_return std::unexpected(fresh.error());
    auto const connection = *fresh;
    if (watch->is_closed) co_return fail("closed");
    watch->socket = &connection->tcp().socket();
    struct Forget {  // the socket ends with this coroutine
        Watch& watch;
        ~Forget() { watch.socket = nullptr; }
    } const forget{*watch};

    Duration const limit = shared->limits.answer;
    connection->tcp().expires_after(limit);
    auto const message = shared->message(request, *token);
    error_code failed;
    co_await http::async_write(connection->stream, message, into(failed));
    http::response_parser<http::buffer_body> parser;
    parser.header_limit(static_cast<std::uint32_t>(shared->limits.header_bytes));
    parser.body_limit(UINT64_MAX);  // none, which Beast 1.74 takes for less than any length
    if (!failed) co_await http::async_read_header(connection->stream, connection->buffer, parser, into(failed));
    if (failed) co_return fail(shared->authority + ": " + reason(failed, limit));
    ApiAnswer answer{static_cast<int>(parser.get().result_int()), retry_after_of(parser.get()), {}};
    bool const is_open = answer.status == 200;
    if (is_open) {
        connection->tcp().expires_never();
        if (!watch->is_closed) watch->on_open();
    }

    std::array<char, piece_bytes> piece;
    std::string& text = answer.body;
    while (!parser.is_done()) {
        parser.get().body().data = piece.data();
        parser.get().body().size = piece.size();
        co_await http::async_read_some(connection->stream, connection->buffer, parser, into(failed));
        if (failed == http::error::need_buffer) failed = {};
        std::size_t searched = text.size();
        text.append(piece.data(), piece.size() - parser.get().body().size);
        if (is_open) {
            std::size_t begin = 0;
            for (std::size_t end = text.find('\n', searched); end != text.npos; end = text.find('\n', begin)) {
                if (watch->is_closed) co_return answer;
                if (end > begin) watch->on_line(text.substr(begin, end - begin));
                begin = end + 1;
            }
            text.erase(0, begin);
            if (text.capacity() > piece_bytes && text.empty()) text = std::string();
        }
        if (text.size() > shared->limits.body_bytes) failed = http::error::body_limit;
        if (failed) break;
    }
    if (is_open && failed == http::error::body_limit) co_return fail(shared->authority + ": a line is too long");
    if (is_open) {
        answer.body = failed ? reason(failed, limit) : std::string();
        co_return answer;
    }
    if (failed && text.empty()) text = reason(failed, limit);
    co_return answer;
}

}  // namespace triton::kubernetes
