#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/net/http_router.h"

namespace triton::agent {

/// The target of a request.
enum class Endpoint : std::uint8_t {
    ready,              ///< /ready: the agent answers
    healthz,            ///< the same under the name that Kubernetes users expect
    readyz,             ///< every supervised process is ready
    metrics,            ///< /metrics
    status,             ///< /v1/status
    substitutions,      ///< /substitutions
    check_hash,         ///< /check_hash/PATH
    is_present,         ///< /is_present/PATH
    hashes,             ///< POST /v1/hashes
    copy_files,         ///< POST
    copy_binaries,      ///< POST
    copy_libraries,     ///< POST
    copy_monitor_conf,  ///< POST
    stage,              ///< POST /v1/stage: copies, and says what
    refresh_certs,      ///< POST
    restart,            ///< POST
    ui,                 ///< /ui: the page
    ui_session,         ///< POST /ui/session: whether one may do what follows
    ui_events,          ///< POST
    ui_configuration,   ///< POST
    ui_logs,            ///< POST
    ui_command,         ///< POST: starts, stops, restarts, signals, reloads
    none                ///< there is no such path
};
inline constexpr std::size_t endpoint_count = static_cast<std::size_t>(Endpoint::none) + 1;

/// For metrics and logs: "check_hash"; "none" is "unknown".
std::string_view name_of(Endpoint endpoint);

/// "200 401 503": all statuses of an endpoint for requests with its method.
std::string_view statuses_of(Endpoint endpoint);
/// Whether an answer is one of these, or one that every endpoint may get.
bool may_answer(Endpoint endpoint, unsigned status);

/// Which endpoints there are, and for whom.
struct RoutingOptions {
    bool has_open_metrics = false;
    bool has_ui = false;
};
/// All but `none`, in the order of Endpoint: a route's number is its endpoint's. One cannot ask for one that is not
/// served.
std::vector<net::HttpRoute> endpoint_routes(RoutingOptions const& options);
/// Of a route that cannot be requested: no target has a blank.
inline constexpr std::string_view no_path = " ";

/// The meaning of a route's number.
inline Endpoint endpoint_of(std::size_t route) {
    return static_cast<Endpoint>(route < endpoint_count ? route : endpoint_count - 1);
}

}  // namespace triton::agent
