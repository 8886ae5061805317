#pragma once

#include <cstdint>

namespace triton::net {

/// What a server counts of itself.
struct HttpFigures {
    std::uint64_t connections = 0;  ///< accepted so far
    std::uint64_t open_connections = 0;
    std::uint64_t evicted_connections = 0;  ///< silent ones that gave way to others
    std::uint64_t failed_handshakes = 0;
    std::uint64_t refused_peers = 0;  ///< requests with no certificate or one that the rules refuse
};

}  // namespace triton::net
