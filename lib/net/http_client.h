#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/net/certificates.h"
#include "lib/net/loop.h"
#include "lib/net/transport.h"

namespace triton::net {

struct HttpField {
    std::string name;
    std::string value;
};

/// A request. The client sets Host and Content-Length.
struct HttpQuestion {
    std::string method = "GET";
    std::string target;
    std::vector<HttpField> fields;
    std::string body = {};
};

struct HttpAnswer {
    int status = 0;
    std::vector<HttpField> fields = {};
    std::string body = {};

    /// The first field of that name, in whatever case; empty: there is none.
    [[nodiscard]] std::string_view field(std::string_view name) const;
};

/// Whom is asked. A certificate must have been made for exactly this host: as a DNS name, or as an IP address.
struct HttpOrigin {
    std::string host;  ///< a name, which is resolved for each new connection, or an address without brackets
    std::uint16_t port = 443;

    /// "[::1]:6443"
    [[nodiscard]] std::string authority() const;
};

/// Time and memory that a server may cost us.
struct HttpClientLimits {
    Duration resolve = std::chrono::seconds(30);  ///< asking DNS
    Duration connect = std::chrono::seconds(5);   ///< to one address; a name may have several
    Duration handshake = std::chrono::seconds(5);
    Duration answer = std::chrono::seconds(15);  ///< from the question to the end of the answer; of lines, its header
    Duration idle = std::chrono::seconds(60);    ///< then the connection that was kept is given up
    std::size_t header_bytes = 64 << 10;
    std::size_t body_bytes = 4 << 20;  ///< of an answer, or of one line
};

/// Asks one server by HTTP/1.1, over TLS when there is a context for it: one connection for questions, kept as long as
/// it is of use, and one for each answer that comes in lines without an end. One I/O thread; every function is called
/// in it. The loop must not outlive what the callbacks use.
class HttpClient {
public:
    /// What a new connection is made with; looked at anew for each. Empty: connections are plain.
    using Context = std::function<Result<Certificates::Context>()>;
    HttpClient(Loop& loop, HttpOrigin origin, Context context, HttpClientLimits const& limits = {});
    ~HttpClient();
    HttpClient(HttpClient const&) = delete;
    HttpClient& operator=(HttpClient const&) = delete;

    /// One at a time. A connection that was kept and has ended before the first byte of the answer is replaced once: a
    /// question may arrive twice. Errors: no address, no connection, no TLS, no answer in time, an answer that is too
    /// long; never a status.
    Task<Result<HttpAnswer>> ask(HttpQuestion question);

    /// An answer that never ends: each line of its body goes to `on_line`.
    class Lines {
    public:
        /// `on_open`: the status is 200. Both are called in the loop.
        Lines(std::function<void()> on_open, std::function<void(std::string)> on_line)
            : on_open_(std::move(on_open)), on_line_(std::move(on_line)) {}
        /// Nothing is heard of it afterwards.
        void close();

    private:
        friend class HttpClient;
        std::function<void()> on_open_;
        std::function<void(std::string)> on_line_;
        Transport* transport_ = nullptr;
        bool is_closed_ = false;
    };
    /// Until its end: returns the answer with a status other than 200, or 200 and, in place of the body, why it has
    /// ended. Errors: as ask(), before it was open; a line that is too long.
    Task<Result<HttpAnswer>> follow(std::shared_ptr<Lines> lines, HttpQuestion question);

    /// Closes all connections.
    void stop();

private:
    struct Connection;
    struct Shared;
    struct Attempt;
    using ConnectionPointer = std::shared_ptr<Connection>;
    static Task<Result<ConnectionPointer>> connect(std::shared_ptr<Shared> shared);
    static Task<Result<ConnectionPointer>> connect_to(std::shared_ptr<Shared> shared, Certificates::Context context,
                                                      Address address);
    static Task<Attempt> exchange(std::shared_ptr<Shared> shared, ConnectionPointer connection,
                                  HttpQuestion const& question);
    static Task<Result<HttpAnswer>> run_ask(std::shared_ptr<Shared> shared, HttpQuestion question);
    static Task<Result<HttpAnswer>> run_follow(std::shared_ptr<Shared> shared, std::shared_ptr<Lines> lines,
                                               HttpQuestion question);

    std::shared_ptr<Shared> shared_;
};

}  // namespace triton::net
