#pragma once

#include <string>
#include <string_view>

namespace triton::http::websocket {

/// The answer to Sec-WebSocket-Key. Source: RFC 6455, 4.2.2.
std::string accept_key(std::string_view key);

}  // namespace triton::http::websocket
