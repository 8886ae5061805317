#include "programs/vminfod/routes.h"

#include <array>

namespace triton::program {

namespace {

struct EndpointRow {
    Endpoint endpoint;
    std::string_view name;
    std::string_view path;   // ends in a slash: what follows is a uuid
    bool is_urgent = false;  // cheap: answered at once, even if others wait
};
constexpr std::array<EndpointRow, endpoint_count> endpoints{{
    {Endpoint::page, "page", "/"},
    {Endpoint::ping, "ping", "/ping", true},
    {Endpoint::status, "status", "/status"},
    {Endpoint::data, "data", "/data"},
    {Endpoint::machines, "vms", "/vms"},
    {Endpoint::machine, "vm", "/vms/", true},
    {Endpoint::events, "events", "/events", true},  // only the beginning of its answer
    {Endpoint::metrics, "metrics", "/metrics"},
    {Endpoint::history, "history", "/history"},
    {Endpoint::usage, "usage", "/usage"},
    {Endpoint::none, "unknown", ""},
}};

static_assert([] {
    for (std::size_t i = 0; i < endpoint_count; ++i)
        if (endpoints[i].endpoint != static_cast<Endpoint>(i)) return false;
    return true;
}());

}  // namespace

std::string_view name_of(Endpoint endpoint) { return endpoints[static_cast<std::size_t>(endpoint)].name; }

std::vector<net::HttpRoute> endpoint_routes() {
    std::vector<net::HttpRoute> routes;
    for (EndpointRow const& row : endpoints) {
        if (row.endpoint != Endpoint::none)
            routes.push_back({row.path, net::HttpMethod::get, /*is_open=*/true, row.is_urgent});
    }
    return routes;
}

}  // namespace triton::program
