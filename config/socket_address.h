#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace triton::config {

enum class SocketKind : std::uint8_t { tcp, udp, unix_stream, unix_datagram, fifo };

/// Where a program listens. An IP socket has a host and a port, the others have a path.
struct SocketAddress {
    SocketKind kind = SocketKind::tcp;
    std::string host = {};   ///< an IPv4 or IPv6 literal without brackets; empty: every address of this host
    std::uint16_t port = 0;  ///< 0: the kernel chooses one
    std::string path = {};   ///< absolute

    bool operator==(SocketAddress const&) const = default;
};

/// Whether a text is a literal of that family (AF_INET, AF_INET6), without brackets. No resolver is asked.
bool is_ip_address(int family, std::string_view text);

/// Reads tcp:HOST:PORT, udp:HOST:PORT (HOST: an IPv4 address, an IPv6 address in brackets, or nothing), unix:PATH,
/// unixgram:PATH, fifo:PATH (absolute; for a socket at most 107 bytes: sun_path in unix(7)).
/// Errors: what is wrong, ready to be shown after the place: "\"tcp:x:80\": x is not an IP address; ...".
std::expected<SocketAddress, std::string> parse_socket_address(std::string_view text);

/// The text that parse_socket_address() reads back as the same address.
std::string format_socket_address(SocketAddress const& address);

}  // namespace triton::config
