#include "host/image/proxies.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <utility>

#include "host/image/authfile.h"
#include "host/image/reference.h"
#include "lib/base/digits.h"

namespace triton::image {

namespace {

constexpr std::array<std::string_view, 5> schemes{"http://", "https://", "socks5://", "socks5h://", "socks4a://"};
/// As in Go's programs, and so in docker and podman.
constexpr std::string_view this_machine = "localhost,127.0.0.0/8,::1";
constexpr std::string_view without_proxy = "none";

std::optional<unsigned> hexadecimal_digit(char c) {
    if (is_digit(c)) return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
    return std::nullopt;
}

/// Reads "%3A" in a user or password; nullopt for a malformed or a control character.
std::optional<std::string> unescaped(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == '%') {
            auto const high = i + 2 < text.size() ? hexadecimal_digit(text[i + 1]) : std::nullopt;
            auto const low = high ? hexadecimal_digit(text[i + 2]) : std::nullopt;
            if (!low) return std::nullopt;
            c = static_cast<char>(*high << 4 | *low);
            i += 2;
        }
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return std::nullopt;
        out += c;
    }
    return out;
}

/// Turns NO_PROXY as other programs read it into what curl understands: of "*.example.org" and "host:5000" only the
/// name.
std::string hosts_of(std::string_view list) {
    std::string out(this_machine);
    while (!list.empty()) {
        std::size_t const end = std::min(list.find_first_of(", \t"), list.size());
        std::string_view one = list.substr(0, end);
        list.remove_prefix(std::min(end + 1, list.size()));
        if (one == "*") return "*";
        if (one.starts_with("*.")) one.remove_prefix(1);
        if (std::ranges::count(one, ':') == 1) one = one.substr(0, one.find(':'));
        if (!one.empty()) out.append(",").append(one);
    }
    return out;
}

}  // namespace

Result<role::Proxy> parse_proxy(std::string_view url, std::string_view what) {
    auto const bad = [&] {
        return fail(std::string(what) + " is not the URL of a proxy (for example http://proxy.example:3128)");
    };
    auto const scheme = std::ranges::find_if(schemes, [url](std::string_view one) { return url.starts_with(one); });
    if (scheme == schemes.end() && url.contains("://")) return bad();
    std::string_view const shown_scheme = scheme == schemes.end() ? schemes.front() : *scheme;
    if (scheme != schemes.end()) url.remove_prefix(scheme->size());
    while (url.ends_with('/'))
        url.remove_suffix(1);
    role::Proxy proxy;
    if (std::size_t const at = url.rfind('@'); at != std::string_view::npos) {
        std::string_view const both = url.substr(0, at);
        std::size_t const colon = std::min(both.find(':'), both.size());
        auto user = unescaped(both.substr(0, colon));
        auto password = unescaped(both.substr(std::min(colon + 1, both.size())));
        if (!user || !password) return bad();
        proxy.user = *std::move(user);
        proxy.password = *std::move(password);
        url.remove_prefix(at + 1);
    }
    if (!is_registry_host(url)) return bad();
    proxy.url = std::string(shown_scheme) + std::string(url);
    return proxy;
}

Result<role::Proxies> proxies_of_environment(Variable const& variable) {
    struct Named {
        std::string name;
        std::string value;
    };
    auto const read = [&variable](std::string const& lower, std::string const& upper) {
        Named found{lower, variable(lower)};
        return found.value.empty() ? Named{upper, variable(upper)} : found;
    };
    Named const all = read("all_proxy", "ALL_PROXY");
    auto const proxy = [&all](Named const& own) -> Result<role::Proxy> {
        Named const& used = own.value.empty() ? all : own;
        if (used.value.empty()) return role::Proxy{};
        return parse_proxy(used.value, used.name + " in the environment");
    };
    role::Proxies proxies;
    proxies.http = TRY(proxy(read("http_proxy", "HTTP_PROXY")));
    proxies.https = TRY(proxy(read("https_proxy", "HTTPS_PROXY")));
    if (!proxies.http.url.empty() || !proxies.https.url.empty())
        proxies.no_proxy = hosts_of(read("no_proxy", "NO_PROXY").value);
    return proxies;
}

Result<role::Proxies> proxies_for(Workshop const& shop, Source const* source, std::string const& authfile) {
    if (!source || source->proxy.empty()) {
        return proxies_of_environment([](std::string const& name) {
            char const* const value = ::getenv(name.c_str());
            return std::string(value ? value : "");
        });
    }
    if (source->proxy == without_proxy) return role::Proxies{};
    role::Proxy proxy = TRY(parse_proxy(source->proxy, "the proxy of source " + source->url));
    if (!authfile.empty()) {
        std::string const host(host_of(proxy.url));
        auto const found = TRY(credential_of(authfile, host, host, shop.settings.cancel));
        if (found.credential) {
            proxy.user = found.credential->user;
            proxy.password = found.credential->password;
        }
    }
    return role::Proxies{.http = proxy, .https = proxy};
}

}  // namespace triton::image
