#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/net/http_router.h"

namespace triton::program {

/// The target of a request.
enum class Endpoint : std::uint8_t {
    page,      ///< /
    ping,      ///< /ping
    status,    ///< /status
    data,      ///< /data
    machines,  ///< /vms
    machine,   ///< /vms/UUID
    events,    ///< /events
    metrics,   ///< /metrics
    history,   ///< /history
    usage,     ///< /usage
    none       ///< there is no such path
};
inline constexpr std::size_t endpoint_count = static_cast<std::size_t>(Endpoint::none) + 1;

/// For metrics: "ping"; of a machine "vm"; "none" is "unknown".
std::string_view name_of(Endpoint endpoint);

/// All but `none`, in the order of Endpoint: a route's number is its endpoint's.
std::vector<net::HttpRoute> endpoint_routes();

inline Endpoint endpoint_of(std::size_t route) {
    return static_cast<Endpoint>(route < endpoint_count ? route : endpoint_count - 1);
}

}  // namespace triton::program
