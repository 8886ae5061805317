#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/clock.h"
#include "lib/net/verify_peers.h"

namespace triton::agent {

/// What one peer, and all of them, may cost.
struct ServerLimits {
    std::size_t connections = 1024;
    std::uint32_t header_bytes = 16 * 1024;
    std::uint64_t body_bytes = 256 * 1024;
    Duration request = std::chrono::seconds(10);  ///< for a handshake, a header, a body: each, whole
    Duration idle = std::chrono::seconds(60);     ///< between two requests
    Duration answer = std::chrono::seconds(30);   ///< for the peer to take an answer
};

struct ServerSettings {
    ServerLimits limits;
    net::PeerRules rules;
    bool has_open_metrics = false;  ///< /metrics for peers without a certificate too
};

}  // namespace triton::agent
