#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/net/http_client.h"
#include "lib/net/loop.h"
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

/// Asks the API server as a pod may: by the token and the authorities of its service account, which are read again when
/// they are replaced. See net::HttpClient for its limits, and for what it keeps open.
class ApiClient {
public:
    ApiClient(net::Loop& loop, net::HttpOrigin server, std::string user_agent, ServiceAccount account,
              net::HttpClientLimits const& limits = {});
    ~ApiClient();
    ApiClient(ApiClient const&) = delete;
    ApiClient& operator=(ApiClient const&) = delete;

    /// One at a time; see HttpClient::ask(). Errors: also no token.
    net::Task<Result<ApiAnswer>> request(ApiRequest request);

    using Watch = net::HttpClient::Lines;
    /// Until its end; see HttpClient::follow(). Errors: also no token.
    net::Task<Result<ApiAnswer>> watch(std::shared_ptr<Watch> watch, ApiRequest request);

    /// Closes all connections.
    void stop();

private:
    struct Shared;
    static net::Task<Result<ApiAnswer>> run_request(std::shared_ptr<Shared> shared, ApiRequest request);
    static net::Task<Result<ApiAnswer>> run_watch(std::shared_ptr<Shared> shared, std::shared_ptr<Watch> watch,
                                                  ApiRequest request);

    std::shared_ptr<Shared> shared_;
};

}  // namespace triton::kubernetes
