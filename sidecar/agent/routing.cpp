#include "sidecar/agent/routing.h"

#include <array>
#include <string>

namespace triton::agent {

namespace {

using net::HttpMethod;

struct EndpointRow {
    Endpoint endpoint;
    std::string_view name;
    std::string_view path;  // ends in a slash: what follows is the file's path
    HttpMethod method;
    bool is_probe;  // answered for everybody, at once
    std::string_view
        statuses;  // those of docs/openapi.yaml; in addition 403, for pages of others, and 405, for another method
};
constexpr std::array<EndpointRow, endpoint_count> endpoints{{
    {Endpoint::ready, "ready", "/ready", HttpMethod::get, true, "200"},
    {Endpoint::healthz, "healthz", "/healthz", HttpMethod::get, true, "200"},
    {Endpoint::readyz, "readyz", "/readyz", HttpMethod::get, true, "200 503"},
    {Endpoint::metrics, "metrics", "/metrics", HttpMethod::get, false, "200 401 503"},
    {Endpoint::status, "status", "/v1/status", HttpMethod::get, false, "200 401 503"},
    {Endpoint::substitutions, "substitutions", "/substitutions", HttpMethod::get, false, "200 401 503"},
    {Endpoint::check_hash, "check_hash", "/check_hash/", HttpMethod::get, false, "200 400 401 403 404 409 500 501 503"},
    {Endpoint::is_present, "is_present", "/is_present/", HttpMethod::get, false, "200 400 401 403 404 500 501 503"},
    {Endpoint::hashes, "hashes", "/v1/hashes", HttpMethod::post, false, "200 400 401 503"},
    {Endpoint::copy_files, "copy_files", "/copy_files", HttpMethod::post, false, "200 401 403 500 501 503 504"},
    {Endpoint::copy_binaries, "copy_binaries", "/copy_binaries", HttpMethod::post, false,
     "200 401 403 500 501 503 504"},
    {Endpoint::copy_libraries, "copy_libraries", "/copy_libraries", HttpMethod::post, false,
     "200 401 403 500 501 503 504"},
    {Endpoint::copy_monitor_conf, "copy_monitor_conf", "/copy_monitor_conf", HttpMethod::post, false,
     "200 401 403 500 501 503 504"},
    {Endpoint::stage, "stage", "/v1/stage", HttpMethod::post, false, "200 400 401 403 500 501 503 504"},
    {Endpoint::refresh_certs, "refresh_certs", "/refresh_certs", HttpMethod::post, false, "200 400 401 500 503"},
    {Endpoint::restart, "restart", "/restart", HttpMethod::post, false, "200 401 403 503"},
    {Endpoint::ui, "ui", "/ui", HttpMethod::get, false, "200 401 503"},
    {Endpoint::ui_session, "ui_session", "/ui/session", HttpMethod::post, false, "200 401 403 503"},
    {Endpoint::ui_events, "ui_events", "/ui/events", HttpMethod::post, false, "200 400 401 403 503"},
    {Endpoint::ui_configuration, "ui_configuration", "/ui/configuration", HttpMethod::post, false, "200 401 403 503"},
    {Endpoint::ui_logs, "ui_logs", "/ui/logs", HttpMethod::post, false, "200 400 401 403 404 500 501 503 504"},
    {Endpoint::ui_command, "ui_command", "/ui/command", HttpMethod::post, false, "200 400 401 403 404 500 501 503 504"},
    {Endpoint::none, "unknown", "", HttpMethod::get, false, ""},
}};

static_assert([] {
    for (std::size_t i = 0; i < endpoint_count; ++i)
        if (endpoints[i].endpoint != static_cast<Endpoint>(i)) return false;
    return true;
}());

}  // namespace

std::string_view name_of(Endpoint endpoint) { return endpoints[static_cast<std::size_t>(endpoint)].name; }

std::string_view statuses_of(Endpoint endpoint) { return endpoints[static_cast<std::size_t>(endpoint)].statuses; }

bool may_answer(Endpoint endpoint, unsigned status) {
    if (endpoint == Endpoint::none || status == 403 || status == 405)
        return true;  // a request that cannot be read has no endpoint
    return statuses_of(endpoint).find(std::to_string(status)) != std::string_view::npos;
}

std::vector<net::HttpRoute> endpoint_routes(RoutingOptions const& options) {
    std::vector<net::HttpRoute> routes;
    for (EndpointRow const& row : endpoints) {
        if (row.endpoint == Endpoint::none) continue;
        bool const is_open = row.is_probe || (options.has_open_metrics && row.endpoint == Endpoint::metrics);
        bool const is_served = options.has_ui || row.endpoint < Endpoint::ui;
        routes.push_back({is_served ? row.path : no_path, row.method, is_open, row.is_probe});
    }
    return routes;
}

}  // namespace triton::agent
