#pragma once

#include <string_view>

namespace triton {

/// Whether only this machine answers to a host of a URL: "localhost", "127.x.y.z", "[::1]", with or without a port.
bool is_loopback_host(std::string_view host);

}  // namespace triton
