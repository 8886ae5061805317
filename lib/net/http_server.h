#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/log/log.h"
#include "lib/net/certificates.h"
#include "lib/net/http_figures.h"
#include "lib/net/http_router.h"
#include "lib/net/http_settings.h"
#include "lib/net/loop.h"

namespace triton::net {

/// The client of a request, while its answer is made.
class HttpCaller {
public:
    HttpCaller() = default;
    /// `watch` is called once somebody asks: most answers are made before anybody could want to know.
    explicit HttpCaller(std::function<void()> watch) : watch_(std::move(watch)) {}

    /// He has ended his side of the connection, as clients do that have given up.
    [[nodiscard]] bool has_gone() {
        begin_watching();
        return has_gone_;
    }
    /// At most one call, when he goes; an empty one: none.
    void when_gone(std::function<void()> call) {
        call_ = std::move(call);
        begin_watching();
    }
    void leave() {
        has_gone_ = true;
        if (auto const call = std::exchange(call_, nullptr)) call();
    }

private:
    void begin_watching() {
        if (auto const watch = std::exchange(watch_, nullptr)) watch();
    }

    bool has_gone_ = false;
    std::function<void()> call_;
    std::function<void()> watch_;
};

/// One request, read whole. The texts are borrowed until it is answered.
struct HttpRequest {
    RouteMatch match;  ///< without an error
    std::string_view query;
    std::string_view accept;
    std::string_view host;
    std::string_view origin;
    std::string_view authorization;
    std::string_view last_event_id;
    std::string_view user_agent;
    std::string_view body;
    bool has_accepted_certificate = false;
    std::string_view peer;  ///< who shares the limits of one peer
    HttpCaller* caller = nullptr;
};

/// An answer while it goes out piece by piece.
class HttpStream {
public:
    using Piece = std::shared_ptr<std::string const>;

    HttpStream() = default;
    HttpStream(HttpStream const&) = delete;
    HttpStream& operator=(HttpStream const&) = delete;
    virtual ~HttpStream() = default;

    /// Sends the pieces, which are not copied. Returns when the kernel has taken the last of them, so a peer that does
    /// not read costs nothing but these; false: the connection has ended.
    virtual Task<bool> write(std::span<Piece const> pieces) = 0;
    /// The connection ends if the peer takes nothing for this long during a write; Duration::max(): never.
    /// HttpLimits::answer at first.
    virtual void limit_stalls(Duration limit) = 0;
    /// An endless stream's: leaves when the peer has gone, and when the server stops. The stream is to end then.
    virtual HttpCaller& caller() = 0;
};

struct HttpResponse {
    unsigned status = 200;
    std::string_view type = "text/plain; charset=utf-8";  ///< a literal
    std::string body;
    HttpStream::Piece shared_body;              ///< in its place: it is not copied
    std::string_view tail;                      ///< after shared_body: a literal
    std::function<Task<>(HttpStream&)> stream;  ///< in its place: sends it. Is kept until its task has ended.
    bool is_endless = false;                    ///< the stream ends when its caller leaves, and counts as a stream
    std::string_view fields;                    ///< further ones, "\r\nName: value"; they outlive the server
    std::string_view allow;                     ///< for 405
    bool asks_to_retry = false;                 ///< 503: it is worth another try soon
    std::function<void()> written;              ///< called once the answer is; the connection ends then
};

/// "<text>\n" with a status.
HttpResponse text_response(unsigned status, std::string text);

/// HTTP/1.1 over TCP and Unix sockets, or over TLS when there are certificates.
///
/// A connection costs a slot. One that says nothing, or says it slowly, gives its slot up when the time for that is
/// over, and earlier when all slots are taken and somebody new comes: the longest silent one first. TLS state is made
/// only once a peer has said something. Handshakes and requests of routes that are not urgent wait for their turn,
/// which the peers have one after the other.
class HttpServer {
public:
    using Answer = std::function<Task<HttpResponse>(HttpRequest const&)>;
    using Answered = std::function<void(std::size_t route, unsigned status)>;

    struct Surroundings {
        Loop& loop;
        HttpRouter const& router;
        Answer answer;                         ///< of a known route, for a permitted client
        Answered answered;                     ///< counts each answer
        Certificates* certificates = nullptr;  ///< null: no TLS
        HttpFigures& figures;
        log::Log& log;
        std::function<void()> idle;  ///< for some time there was no request
    };

    /// Errors: those of epoll_create1(2).
    static Result<HttpServer> create(HttpSettings settings, Surroundings around);

    /// Accepts from a listening stream socket from now on. Errors: those of getsockopt(2); unsupported: it is another
    /// kind of socket.
    Result<> listen(UniqueFd socket);

    /// Accepts no more, ends silent connections, lets the callers of endless streams leave, and calls `stopped` when
    /// the answers that are under way are written. A second call does nothing.
    void stop(std::function<void()> stopped);

    [[nodiscard]] std::size_t open_connections() const;
    /// Whether each open connection waits for its peer.
    [[nodiscard]] bool is_quiet() const;

private:
    class Impl;
    explicit HttpServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
    std::shared_ptr<Impl> impl_;
};

}  // namespace triton::net
