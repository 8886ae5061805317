#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace triton::config {

/// Where a probe over the network goes. Borrowed from the text that it was read from.
struct ProbeTarget {
    std::string_view host = {};  ///< an IPv4 or IPv6 literal without brackets, or "localhost"
    std::uint16_t port = 0;      ///< never 0
    bool is_tls = false;         ///< URL: https
    std::string_view path = {};  ///< URL: with the query, as a request line has it; at least "/"

    bool operator==(ProbeTarget const&) const = default;
};

/// Reads HOST:PORT; an IPv6 address stands in brackets. Other names than localhost are refused: no resolver is asked.
/// Does not allocate unless it fails. Errors: ready to be shown behind the place: "\"localhost\" has no port",
/// "\"70000\" is not a port from 1 to 65535".
std::expected<ProbeTarget, std::string> parse_probe_address(std::string_view text);

/// Reads http://HOST[:PORT][/PATH][?QUERY] or https://.., at most 4096 bytes, the host as above. What follows the host
/// goes into a request as it is, so it must be what a URL may have there (RFC 3986), without a fragment.
/// Errors: the same: "\"ftp://[::1]\" begins with neither http:// nor https://".
std::expected<ProbeTarget, std::string> parse_probe_url(std::string_view text);

}  // namespace triton::config
