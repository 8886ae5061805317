#include "config/socket_address.h"

#include <array>
#include <charconv>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "lib/base/nearest.h"
#include "lib/json/text.h"

namespace triton::config {

namespace {

constexpr std::array<std::string_view, 5> kinds{"tcp", "udp", "unix", "unixgram", "fifo"};  // in the order of the enum
constexpr std::size_t longest_socket_path = sizeof(sockaddr_un::sun_path) - 1;

std::unexpected<std::string> fault(std::string text) { return std::unexpected(std::move(text)); }

/// Parses HOST:PORT. A name is not allowed as the host: nothing here may ask a resolver.
std::expected<SocketAddress, std::string> parse_host_and_port(SocketKind kind, std::string_view rest) {
    std::size_t const colon = rest.rfind(':');
    if (colon == std::string_view::npos) return fault("has no port");
    std::string_view host = rest.substr(0, colon);
    std::string_view const port = rest.substr(colon + 1);
    SocketAddress address{.kind = kind};
    auto const [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
    if (error != std::errc{} || end != port.data() + port.size()) return fault(json::shown(port) + " is not a port");
    if (host.starts_with('[') && host.ends_with(']')) {
        host = host.substr(1, host.size() - 2);
        if (!is_ip_address(AF_INET6, host)) return fault(json::shown(host) + " is not an IPv6 address");
    } else if (is_ip_address(AF_INET6, host)) {
        return fault("an IPv6 address must be in brackets: [" + std::string(host) + "]");
    } else if (!host.empty() && !is_ip_address(AF_INET, host)) {
        return fault(json::shown(host) + " is not an IP address");
    }
    address.host = host;
    return address;
}

std::expected<SocketAddress, std::string> parse_path(SocketKind kind, std::string_view path) {
    if (!path.starts_with('/')) return fault(json::shown(path) + " is not an absolute path");
    if (path.contains('\0')) return fault("contains a NUL byte");
    if (kind != SocketKind::fifo && path.size() > longest_socket_path) {
        return fault("the path of a socket has at most " + std::to_string(longest_socket_path) + " bytes (unix(7))");
    }
    return SocketAddress{.kind = kind, .path = std::string(path)};
}

}  // namespace

bool is_ip_address(int family, std::string_view text) {
    std::array<char, INET6_ADDRSTRLEN> terminated{};
    std::array<std::byte, sizeof(in6_addr)> address{};
    if (text.empty() || text.size() >= terminated.size() || text.contains('\0')) return false;
    text.copy(terminated.data(), text.size());
    return ::inet_pton(family, terminated.data(), address.data()) == 1;
}

std::expected<SocketAddress, std::string> parse_socket_address(std::string_view text) {
    std::size_t const colon = text.find(':');
    if (colon == std::string_view::npos) return fault("needs a kind before a colon: tcp, udp, unix, unixgram or fifo");
    std::string_view const name = text.substr(0, colon);
    std::string_view const rest = text.substr(colon + 1);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        if (kinds[i] != name) continue;
        auto const kind = static_cast<SocketKind>(i);
        bool const is_ip = kind == SocketKind::tcp || kind == SocketKind::udp;
        return is_ip ? parse_host_and_port(kind, rest) : parse_path(kind, rest);
    }
    auto const meant = nearest(name, kinds);
    return fault(json::shown(name) + " is not one of tcp, udp, unix, unixgram, fifo" +
                 (meant ? "; did you mean " + json::quoted(*meant) + "?" : ""));
}

std::string format_socket_address(SocketAddress const& address) {
    std::string text(kinds[static_cast<std::size_t>(address.kind)]);
    text += ':';
    if (address.kind != SocketKind::tcp && address.kind != SocketKind::udp) return text += address.path;
    bool const is_v6 = address.host.contains(':');
    return text.append(is_v6 ? "[" : "")
        .append(address.host)
        .append(is_v6 ? "]:" : ":")
        .append(std::to_string(address.port));
}

}  // namespace triton::config
