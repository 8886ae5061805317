#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>  // Boost 1.74's awaitable.hpp needs std::exchange and does not say so

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/net/resolver.h"
#include "sidecar/kubernetes/service_account.h"

namespace triton::kubernetes {

struct ApiRequest {
    std::string_view method = "GET";
    std::string target;
    std::string_view content_type;  ///< empty: no body
    std::string body;
    bool wants_metadata_only = false;  ///< of the object in the answer
    bool with_fresh_token = false;
};

struct ApiAnswer {
    int status = 0;
    std::optional<Duration> retry_after;
    std::string body;
};

/// Where the API is. A certificate must have been made for exactly this host: as a DNS name, or as an IP address.
struct ApiServer {
    std::string host;  ///< a name, which is resolved for each new connection, or an address without brackets
    std::uint16_t port = 443;
};

/// Time and memory that a server may cost us.
struct ApiLimits {
    Duration resolve = std::chrono::seconds(30);  ///< asking DNS
    Duration connect = std::chrono::seconds(5);   ///< to one address; a name may have several
    Duration handshake = std::chrono::seconds(5);
    Duration answer = std::chrono::seconds(15);  ///< from the request to the end of the answer; of a watch, its header
    Duration idle = std::chrono::seconds(60);    ///< then the connection for requests is given up
    std::size_t header_bytes = 64 << 10;
    std::size_t body_bytes = 4 << 20;  ///< of an answer, or of one line of a watch
};

/// Speaks HTTP/1.1 over TLS with the API server: one connection for requests, kept as long as it is of use, and one for
/// each watch. One I/O thread; every function is called in it. The loop must not outlive what the callbacks use.
class ApiClient {
public:
    ApiClient(boost::asio::io_context& io, ApiServer server, std::string user_agent, ServiceAccount account,
              ApiLimits const& limits = {});
    ~ApiClient();
    ApiClient(ApiClient const&) = delete;
    ApiClient& operator=(ApiClient const&) = delete;

    /// One at a time. A connection that was kept and has ended before the first byte of the answer is replaced once: a
    /// request may arrive twice. Errors: no token, no address, no connection, no TLS, no answer in time, an answer that
    /// is too long; never a status.
    boost::asio::awaitable<Result<ApiAnswer>> request(ApiRequest request);

    /// An answer that never ends: each line of its body goes to `on_line`.
    class Watch {
    public:
        /// Nothing is heard of it afterwards.
        void close();

    private:
        friend class ApiClient;
        std::function<void()> on_open;
        std::function<void(std::string)> on_line;
        boost::asio::ip::tcp::socket* socket = nullptr;
        bool is_closed = false;
    };
    /// `on_open`: the status is 200. Both are called in the loop.
    static std::shared_ptr<Watch> make_watch(std::function<void()> on_open, std::function<void(std::string)> on_line);
    /// Until its end: returns the answer with a status other than 200, or 200 and why it has ended. Errors: as
    /// request(), before it was open; a line that is too long.
    boost::asio::awaitable<Result<ApiAnswer>> watch(std::shared_ptr<Watch> watch, ApiRequest request);

    /// Closes all connections.
    void stop();

private:
    struct Connection;
    struct Shared;
    static boost::asio::awaitable<Result<std::shared_ptr<Connection>>> connect(std::shared_ptr<Shared> shared);
    static boost::asio::awaitable<Result<std::shared_ptr<Connection>>> connect_to(
        std::shared_ptr<Shared> shared, std::shared_ptr<boost::asio::ssl::context> tls,
        boost::asio::ip::address address);
    static boost::asio::awaitable<Result<ApiAnswer>> exchange(std::shared_ptr<Shared> shared,
                                                              std::shared_ptr<Connection> connection,
                                                              ApiRequest const& request, std::string const& token);
    static boost::asio::awaitable<Result<ApiAnswer>> run_request(std::shared_ptr<Shared> shared, ApiRequest request);
    static boost::asio::awaitable<Result<ApiAnswer>> run_watch(std::shared_ptr<Shared> shared,
                                                               std::shared_ptr<Watch> watch, ApiRequest request);

    std::shared_ptr<Shared> shared_;
};

}  // namespace triton::kubernetes
