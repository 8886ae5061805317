#include "sidecar/agent/routing.h"

#include <algorithm>
#include <array>
#include <optional>

namespace triton::agent {

namespace {

struct EndpointRow {
    Endpoint endpoint;
    std::string_view name;
    std::string_view path;  // ends in a slash: what follows is the file's path
    bool is_post;
    bool is_open;
};
constexpr std::array<EndpointRow, endpoint_count> endpoints{{
    {Endpoint::ready, "ready", "/ready", false, true},
    {Endpoint::healthz, "healthz", "/healthz", false, true},
    {Endpoint::readyz, "readyz", "/readyz", false, true},
    {Endpoint::metrics, "metrics", "/metrics", false, false},
    {Endpoint::status, "status", "/v1/status", false, false},
    {Endpoint::substitutions, "substitutions", "/substitutions", false, false},
    {Endpoint::check_hash, "check_hash", "/check_hash/", false, false},
    {Endpoint::is_present, "is_present", "/is_present/", false, false},
    {Endpoint::hashes, "hashes", "/v1/hashes", true, false},
    {Endpoint::copy_files, "copy_files", "/copy_files", true, false},
    {Endpoint::copy_binaries, "copy_binaries", "/copy_binaries", true, false},
    {Endpoint::copy_libraries, "copy_libraries", "/copy_libraries", true, false},
    {Endpoint::copy_monitor_conf, "copy_monitor_conf", "/copy_monitor_conf", true, false},
    {Endpoint::stage, "stage", "/v1/stage", true, false},
    {Endpoint::refresh_certs, "refresh_certs", "/refresh_certs", true, false},
    {Endpoint::restart, "restart", "/restart", true, false},
    {Endpoint::none, "unknown", "", false, false},
}};

EndpointRow const& row(Endpoint endpoint) { return endpoints[static_cast<std::size_t>(endpoint)]; }

int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/// nullopt: a bad escape. "+" is a plus: this is a path, no form.
std::optional<std::string> unescaped(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '%') {
            out += text[at];
            continue;
        }
        int const high = at + 2 < text.size() ? hex_value(text[at + 1]) : -1;
        int const low = high < 0 ? -1 : hex_value(text[at + 2]);
        if (low < 0) return std::nullopt;
        out += static_cast<char>(high * 16 + low);
        at += 2;
    }
    return out;
}

/// The path of a target: of "http://host/a?b#c" it is "/a".
std::string_view path_of(std::string_view target) {
    for (std::string_view const scheme : {"http://", "https://"}) {
        if (!target.starts_with(scheme)) continue;
        std::size_t const slash = target.find('/', scheme.size());
        target = slash == target.npos ? "/" : target.substr(slash);
        break;
    }
    return target.substr(0, target.find_first_of("?#"));
}

}  // namespace

std::string_view name_of(Endpoint endpoint) { return row(endpoint).name; }

bool is_open(Endpoint endpoint) { return row(endpoint).is_open; }

Route route(std::string_view method, std::string_view target) {
    Route result;
    std::string_view const path = path_of(target);
    auto const found = std::ranges::find_if(endpoints, [path](EndpointRow const& candidate) {
        if (candidate.endpoint == Endpoint::none) return false;
        return candidate.path.ends_with('/') ? path.starts_with(candidate.path) : path == candidate.path;
    });
    if (found == endpoints.end()) {
        result.error = RouteError::not_found;
        return result;
    }
    result.endpoint = found->endpoint;
    result.allowed = found->is_post ? "POST" : "GET, HEAD";
    result.is_head = method == "HEAD";
    bool const is_allowed = found->is_post ? method == "POST" : method == "GET" || result.is_head;
    if (!is_allowed) {
        result.error = RouteError::method;
        return result;
    }
    if (!found->path.ends_with('/')) return result;
    auto file = unescaped(path.substr(found->path.size()));
    // The shipped program takes slashes before a relative path for nothing, and so do URLs that were put together.
    if (file) file->erase(0, std::min(file->find_first_not_of('/'), file->size()));
    if (!file || file->empty() || file->find('\0') != file->npos) {
        result.error = RouteError::bad_path;
    } else {
        result.path = std::move(*file);
    }
    return result;
}

}  // namespace triton::agent
