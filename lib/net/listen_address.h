#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::net {

/// An address as it is given on a command line: "10.0.0.1:8080", "[::1]:8080", ":8080" or "8080" (all addresses, of
/// both families where there are both). Errors: what is wrong with it.
struct ListenAddress {
    std::string host;  ///< an address without brackets; empty: all
    std::uint16_t port = 0;
};
Result<ListenAddress> parse_listen_address(std::string_view text);

/// Binds and listens. Errors: those of socket(2), bind(2) and listen(2), with the address.
Result<UniqueFd> open_listening_socket(ListenAddress const& address);

/// "10.0.0.1:8080" of a bound socket, for the log.
std::string local_address(int socket);

}  // namespace triton::net
