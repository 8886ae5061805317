#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "host/cri/stream/request_head.h"

namespace triton::cri::stream {

enum class Purpose : std::uint8_t { execute, attach, forward };

/// What a client wants and we can do.
struct Upgrade {
    Purpose purpose = Purpose::execute;
    std::string token = {};
    bool is_websocket = false;
    int version = 0;          ///< of channel.k8s.io
    bool is_base64 = false;   ///< of a WebSocket
    bool is_tunnel = false;   ///< SPDY through a WebSocket
    std::string answer = {};  ///< the head with status 101, once the token is good

    bool operator==(Upgrade const&) const = default;
};

/// A whole answer: why there is no upgrade.
struct Refusal {
    std::string answer;
};

/// Of several protocols the first one of the client that we have.
std::variant<Upgrade, Refusal> negotiate(RequestHead const& head);

}  // namespace triton::cri::stream
