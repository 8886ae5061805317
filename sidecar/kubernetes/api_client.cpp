#include "sidecar/kubernetes/api_client.h"

#include <charconv>
#include <cstdint>
#include <utility>

namespace triton::kubernetes {

namespace {

/// Reads Retry-After in seconds. This API does not use the other form, a date.
std::optional<Duration> retry_after(std::string_view text) {
    std::uint32_t seconds = 0;
    auto const [end, failed] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return std::chrono::seconds(seconds);
}

Result<ApiAnswer> api_answer(Result<net::HttpAnswer> answer) {
    if (!answer) return std::unexpected(std::move(answer).error());
    return ApiAnswer{answer->status, retry_after(answer->field("Retry-After")), std::move(answer->body)};
}

}  // namespace

/// The part of a client that lives as long as one of its coroutines.
struct ApiClient::Shared {
    Shared(net::Loop& loop, net::HttpOrigin server, std::string agent, ServiceAccount of,
           net::HttpClientLimits const& limits)
        : user_agent(std::move(agent)),
          account(std::move(of)),
          client(loop, std::move(server), [this] { return account.tls(); }, limits) {}

    std::string user_agent;
    ServiceAccount account;
    net::HttpClient client;

    [[nodiscard]] net::HttpQuestion question(ApiRequest request, std::string const& token) const {
        net::HttpQuestion question{.method = std::string(request.method),
                                   .target = std::move(request.target),
                                   .fields = {{"User-Agent", user_agent}, {"Authorization", "Bearer " + token}},
                                   .body = std::move(request.body)};
        question.fields.push_back(
            {"Accept", request.wants_metadata_only
                           ? "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
                           : "application/json"});
        if (!request.content_type.empty())
            question.fields.push_back({"Content-Type", std::string(request.content_type)});
        return question;
    }
};

ApiClient::ApiClient(net::Loop& loop, net::HttpOrigin server, std::string user_agent, ServiceAccount account,
                     net::HttpClientLimits const& limits)
    : shared_(std::make_shared<Shared>(loop, std::move(server), std::move(user_agent), std::move(account), limits)) {}

ApiClient::~ApiClient() { stop(); }

void ApiClient::stop() { shared_->client.stop(); }

net::Task<Result<ApiAnswer>> ApiClient::request(ApiRequest request) { return run_request(shared_, std::move(request)); }

net::Task<Result<ApiAnswer>> ApiClient::watch(std::shared_ptr<Watch> watch, ApiRequest request) {
    return run_watch(shared_, std::move(watch), std::move(request));
}

net::Task<Result<ApiAnswer>> ApiClient::run_request(std::shared_ptr<Shared> shared, ApiRequest request) {
    auto const token = shared->account.token(request.with_fresh_token);
    if (!token) co_return std::unexpected(token.error());
    net::HttpQuestion question = shared->question(std::move(request), *token);
    auto answer = co_await shared->client.ask(std::move(question));
    co_return api_answer(std::move(answer));
}

net::Task<Result<ApiAnswer>> ApiClient::run_watch(std::shared_ptr<Shared> shared, std::shared_ptr<Watch> watch,
                                                  ApiRequest request) {
    auto const token = shared->account.token(request.with_fresh_token);
    if (!token) co_return std::unexpected(token.error());
    net::HttpQuestion question = shared->question(std::move(request), *token);
    auto answer = co_await shared->client.follow(std::move(watch), std::move(question));
    co_return api_answer(std::move(answer));
}

}  // namespace triton::kubernetes
