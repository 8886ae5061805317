#include "config/probe_target.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <netinet/in.h>

#include "config/socket_address.h"
#include "lib/json/text.h"

namespace triton::config {

namespace {

constexpr std::size_t longest_url = 4096;
constexpr std::size_t longest_pattern = 1024;
constexpr std::size_t shown_bytes = 128;

std::unexpected<std::string> target_fault(std::string_view text, std::string_view reason) {
    return std::unexpected(json::quoted(text, shown_bytes).append(" ").append(reason));
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
    std::uint16_t port = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc{} || end != text.data() + text.size() || port == 0) return std::nullopt;
    return port;
}

/// Parses HOST:PORT, or HOST alone where there is a default port.
std::expected<ProbeTarget, std::string> parse_authority(std::string_view text,
                                                        std::optional<std::uint16_t> default_port) {
    if (is_ip_address(AF_INET6, text)) return target_fault(text, "needs brackets around its IPv6 address");
    ProbeTarget target;
    std::size_t const colon = text.rfind(':');
    bool const has_port = colon != std::string_view::npos && !text.ends_with(']');  // else it is part of the address
    if (!has_port && !default_port) return target_fault(text, "has no port");
    auto const port = has_port ? parse_port(text.substr(colon + 1)) : default_port;
    if (!port) return target_fault(text.substr(colon + 1), "is not a port from 1 to 65535");
    target.port = *port;
    target.host = has_port ? text.substr(0, colon) : text;
    if (target.host.empty()) return target_fault(text, "has no host");
    if (target.host.starts_with('[') && target.host.ends_with(']')) {
        target.host = target.host.substr(1, target.host.size() - 2);
        if (!is_ip_address(AF_INET6, target.host)) return target_fault(target.host, "is not an IPv6 address");
    } else if (is_ip_address(AF_INET6, target.host)) {
        return target_fault(text, "needs brackets around its IPv6 address");
    } else if (target.host != "localhost" && !is_ip_address(AF_INET, target.host)) {
        return target_fault(target.host, "is neither an IP address nor localhost");
    }
    return target;
}

/// Whether a URL may have the character in its path or query. Source: RFC 3986, appendix A.
bool is_path_character(char c) { return c > ' ' && c < '\x7f' && !std::string_view("\"#<>[\\]^`{|}").contains(c); }

}  // namespace

std::expected<ProbeTarget, std::string> parse_probe_address(std::string_view text) {
    return parse_authority(text, std::nullopt);
}

std::expected<ProbeTarget, std::string> parse_probe_url(std::string_view text) {
    constexpr std::string_view plain = "http://";
    constexpr std::string_view secure = "https://";
    bool const is_tls = text.starts_with(secure);
    if (!is_tls && !text.starts_with(plain)) return target_fault(text, "begins with neither http:// nor https://");
    if (text.size() > longest_url)
        return target_fault(text, "is longer than " + std::to_string(longest_url) + " bytes");
    std::string_view const rest = text.substr(is_tls ? secure.size() : plain.size());
    std::size_t const slash = rest.find('/');
    if (slash == 0 || rest.empty()) return target_fault(text, "has no host");
    auto target = parse_authority(rest.substr(0, slash), is_tls ? 443 : 80);
    if (!target) return target;
    target->is_tls = is_tls;
    target->path = slash == std::string_view::npos ? "/" : rest.substr(slash);
    if (!std::ranges::all_of(target->path, is_path_character))
        return target_fault(target->path, "has a character that must be percent-encoded in a URL");
    return target;
}

std::expected<ProbeTarget, std::string> parse_log_pattern(std::string_view text) {
    if (text.empty()) return std::unexpected("must not be empty");
    if (text.size() > longest_pattern)
        return target_fault(text, "is longer than " + std::to_string(longest_pattern) + " bytes");
    return ProbeTarget{};
}

}  // namespace triton::config
