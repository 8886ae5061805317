#include "sidecar/agent/own_names.h"

#include <algorithm>
#include <array>

#include <arpa/inet.h>

#include "lib/base/http_field.h"
#include "lib/net/http_syntax.h"

namespace triton::agent {

namespace {

bool is_address(std::string const& text) {
    std::array<unsigned char, sizeof(in6_addr)> address{};
    if (text.size() > 2 && text.front() == '[' && text.back() == ']')
        return ::inet_pton(AF_INET6, text.substr(1, text.size() - 2).c_str(), address.data()) == 1;
    return ::inet_pton(AF_INET, text.c_str(), address.data()) == 1;
}

/// A host without its port and without the dot that ends a full name; empty when something else follows the name.
std::string_view name_in(std::string_view host) {
    std::size_t const bracket = host.starts_with('[') ? host.find(']') : 0;
    if (bracket == host.npos) return {};
    std::size_t const colon = host.find(':', bracket);
    std::string_view name = host.substr(0, colon);
    if (colon != host.npos) {
        std::string_view const port = host.substr(colon + 1);
        if (!port.empty() && !net::is_number(port)) return {};
    }
    if (name.ends_with('.')) name.remove_suffix(1);
    return name;
}

bool is_below(std::string_view name, std::string_view domain) {
    if (domain.empty() || name.size() <= domain.size() + 1) return false;
    std::string_view const end = name.substr(name.size() - domain.size());
    return name[name.size() - domain.size() - 1] == '.' && are_same_letters(end, domain);
}

/// The next word of a line; empty at its end.
std::string_view take_word(std::string_view& line) {
    line = trimmed(line);
    std::string_view const word = line.substr(0, line.find_first_of(" \t"));
    line.remove_prefix(word.size());
    return word;
}

}  // namespace

std::string cluster_domain_of(std::string_view resolv_conf) {
    constexpr std::string_view services = "svc.";
    std::string_view domain;
    while (!resolv_conf.empty()) {
        std::string_view line = resolv_conf.substr(0, resolv_conf.find('\n'));
        resolv_conf.remove_prefix(std::min(resolv_conf.size(), line.size() + 1));
        if (take_word(line) != "search") continue;
        domain = {};  // the last list counts
        for (std::string_view word = take_word(line); !word.empty(); word = take_word(line))
            if (word.starts_with(services)) domain = word.substr(services.size());
    }
    if (domain.ends_with('.')) domain.remove_suffix(1);
    return std::string(domain);
}

std::optional<std::string_view> OwnNames::refusal_of(std::string_view host, std::string_view origin) const {
    // Over TLS the browser has checked the name against our certificate.
    if (!settings_.has_tls && !is_own_host(host))
        return "Host is not an address, localhost, this pod or a name of --allow-host";
    if (!is_own_origin(origin, host)) return "Origin is not this server";
    return std::nullopt;
}

bool OwnNames::is_own_host(std::string_view host) const {
    if (host.empty()) return true;
    std::string const name(name_in(host));
    if (name.empty()) return false;
    return are_same_letters(name, "localhost") || is_address(name) || are_same_letters(name, settings_.host_name) ||
           is_below(name, "svc") || is_below(name, settings_.cluster_domain) ||
           std::ranges::any_of(settings_.allowed,
                               [&name](std::string const& own) { return are_same_letters(name, own); });
}

/// Whether the request does not come from somebody else's page. Without Origin it does not come from a browser, or it
/// changes nothing.
bool OwnNames::is_own_origin(std::string_view origin, std::string_view host) const {
    if (origin.empty()) return true;
    std::string_view const scheme = settings_.has_tls ? "https://" : "http://";
    return !host.empty() && origin.starts_with(scheme) && are_same_letters(origin.substr(scheme.size()), host);
}

}  // namespace triton::agent
