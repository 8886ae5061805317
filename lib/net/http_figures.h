#pragma once

#include <cstdint>

namespace triton::net {

/// What a server counts of itself.
struct HttpFigures {
    std::uint64_t connections = 0;  ///< accepted so far
    std::uint64_t open_connections = 0;
    std::uint64_t evicted_connections = 0;  ///< silent ones that gave way to others
    std::uint64_t failed_handshakes = 0;
    std::uint64_t open_streams = 0;     ///< without an end
    std::uint64_t refused_streams = 0;  ///< there were as many as there may be
    std::uint64_t evicted_streams = 0;  ///< stalled ones that gave way to others
    std::uint64_t evicted_answers = 0;  ///< long ones that gave way to others
    std::uint64_t refused_peers = 0;    ///< requests with no certificate or one that the rules refuse
};

}  // namespace triton::net
