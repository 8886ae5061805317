#include "lib/net/listen_address.h"

#include <array>
#include <cerrno>
#include <charconv>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "lib/json/text.h"

namespace triton::net {

namespace {

constexpr int backlog = 1024;  // reduced by the kernel to net.core.somaxconn

union SocketAddress {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
};

bool is_address(int family, std::string const& host) {
    std::array<unsigned char, 16> bytes{};
    return ::inet_pton(family, host.c_str(), bytes.data()) == 1;
}

/// Binds a socket, for both families if the host is empty. Errors: errno.
std::expected<UniqueFd, int> bind_socket(int family, ListenAddress const& address) {
    UniqueFd socket{::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!socket) return std::unexpected(errno);
    int const on = 1;
    int const only_v6 = address.host.empty() ? 0 : 1;
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // if that matters, bind says so
    SocketAddress bound{};
    bound.any.sa_family = static_cast<sa_family_t>(family);
    socklen_t size = sizeof bound.v4;
    if (family == AF_INET6) {
        (void)::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof only_v6);
        bound.v6.sin6_port = ::htons(address.port);
        if (!address.host.empty()) ::inet_pton(AF_INET6, address.host.c_str(), &bound.v6.sin6_addr);
        size = sizeof bound.v6;
    } else {
        bound.v4.sin_port = ::htons(address.port);
        if (!address.host.empty()) ::inet_pton(AF_INET, address.host.c_str(), &bound.v4.sin_addr);
    }
    if (::bind(socket.get(), &bound.any, size) != 0 || ::listen(socket.get(), backlog) != 0)
        return std::unexpected(errno);
    return socket;
}

}  // namespace

Result<ListenAddress> parse_listen_address(std::string_view text) {
    ListenAddress address;
    std::size_t const colon = text.rfind(':');
    std::string_view const port = colon == text.npos ? text : text.substr(colon + 1);
    if (colon != text.npos) address.host = text.substr(0, colon);
    bool const has_brackets = address.host.starts_with('[') && address.host.ends_with(']');
    if (has_brackets) address.host = address.host.substr(1, address.host.size() - 2);
    auto const [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
    bool const has_port = error == std::errc{} && end == port.data() + port.size();
    bool const has_host =
        address.host.empty() ? !has_brackets : is_address(has_brackets ? AF_INET6 : AF_INET, address.host);
    if (!has_port || !has_host)
        return fail(json::quoted(text) + " is not an address (for example 10.0.0.1:8080, [::1]:8080, :8080)");
    return address;
}

Result<UniqueFd> open_listening_socket(ListenAddress const& address) {
    bool const is_v6 = address.host.empty() || address.host.find(':') != address.host.npos;
    auto socket = bind_socket(is_v6 ? AF_INET6 : AF_INET, address);
    // This machine has no IPv6.
    if (!socket && address.host.empty() && (socket.error() == EAFNOSUPPORT || socket.error() == EADDRNOTAVAIL))
        socket = bind_socket(AF_INET, address);
    if (!socket) return fail(socket.error(), "listen on " + address.host + ":" + std::to_string(address.port));
    return std::move(*socket);
}

std::string local_address(int socket) {
    SocketAddress bound{};
    socklen_t size = sizeof bound;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (::getsockname(socket, &bound.any, &size) != 0) return "?";
    if (bound.any.sa_family == AF_UNIX) return "unix";
    if (bound.any.sa_family == AF_INET) {
        ::inet_ntop(AF_INET, &bound.v4.sin_addr, text.data(), text.size());
        return std::string(text.data()) + ":" + std::to_string(::ntohs(bound.v4.sin_port));
    }
    ::inet_ntop(AF_INET6, &bound.v6.sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(::ntohs(bound.v6.sin6_port));
}

}  // namespace triton::net
