#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace triton::agent {

/// What a request asks for.
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
    none                ///< there is no such path
};
inline constexpr std::size_t endpoint_count = static_cast<std::size_t>(Endpoint::none) + 1;

/// For metrics and logs: "check_hash"; "none" is "unknown".
std::string_view name_of(Endpoint endpoint);

enum class RouteError : std::uint8_t {
    none,
    bad_path,   ///< a bad escape, a NUL, no path in it
    not_found,  ///< no such endpoint
    method,     ///< there is one, for another method; `allowed` says which
};

struct Route {
    Endpoint endpoint = Endpoint::none;
    RouteError error = RouteError::none;
    std::string path;          ///< of check_hash and is_present: relative, unescaped, not yet confined
    std::string_view allowed;  ///< methods of the endpoint
    bool is_head = false;
};

/// Who asks for what. `target` is the request target of RFC 9112 in origin or absolute form; a query is ignored.
Route route(std::string_view method, std::string_view target);

/// Whether an endpoint answers to everybody, also to those who show no certificate where TLS asks for one: kubelets
/// have none.
bool is_open(Endpoint endpoint);

}  // namespace triton::agent
