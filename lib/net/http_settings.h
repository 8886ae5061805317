#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/net/verify_peers.h"

namespace triton::net {

/// What one peer, and all of them, may cost.
struct HttpLimits {
    std::size_t connections = 1024;
    std::uint32_t header_bytes = 16 * 1024;
    std::uint64_t body_bytes = 256 * 1024;
    Duration request = std::chrono::seconds(10);  ///< for a handshake, a header, a body: each, whole
    Duration idle = std::chrono::seconds(60);     ///< between two requests
    Duration answer = std::chrono::seconds(30);   ///< for the peer to take something of an answer
    std::size_t handshakes = 256;                 ///< under way; the one that waits the longest gives way
    std::size_t handshakes_of_peer = 64;
    std::size_t bodies = 32;    ///< read at the same time; the others wait in their peers' kernels
    std::size_t answers = 512;  ///< being made, of routes that are not urgent; more get 503
    std::size_t answers_of_peer = 256;
    std::size_t streams = 256;       ///< without an end; more get 503
    std::size_t long_answers = 256;  ///< being sent piece by piece; the one that began first gives way
    int send_buffer = 256 * 1024;    ///< of those two, in the kernel
};

struct HttpSettings {
    HttpLimits limits;
    PeerRules rules;
    std::string_view unknown_path = "Path not found";  ///< a literal: what 404 says
    std::string_view fields;                           ///< of every answer, a literal: "\r\nName: value"
    Duration lingering = std::chrono::seconds(2);      ///< for the peer to end its side after ours
};

}  // namespace triton::net
