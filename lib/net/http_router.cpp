#include "lib/net/http_router.h"

#include <algorithm>

#include "lib/net/http_syntax.h"

namespace triton::net {

namespace {

bool has_own_path(HttpRoute const& route) { return route.path.size() > 1 && route.path.ends_with('/'); }

bool is_allowed(HttpMethod wanted, std::string_view method) {
    switch (wanted) {
        case HttpMethod::get: return method == "GET" || method == "HEAD";
        case HttpMethod::post: return method == "POST";
    }
    return false;
}

std::string_view method_name(HttpMethod method) { return method == HttpMethod::post ? "POST" : "GET, HEAD"; }

}  // namespace

RouteMatch HttpRouter::match(std::string_view method, std::string_view path) const {
    RouteMatch result;
    auto const found = std::ranges::find_if(routes_, [path](HttpRoute const& candidate) {
        return has_own_path(candidate) ? path.starts_with(candidate.path) : path == candidate.path;
    });
    result.route = static_cast<std::size_t>(found - routes_.begin());
    if (found == routes_.end()) {
        result.error = RouteError::not_found;
        return result;
    }
    result.allowed = method_name(found->method);
    if (!is_allowed(found->method, method)) {
        result.error = RouteError::method;
        return result;
    }
    if (!has_own_path(*found)) return result;
    auto own = unescaped(path.substr(found->path.size()));
    // The shipped program ignores slashes before a relative path, and URLs that were put together may have some.
    if (own) own->erase(0, std::min(own->find_first_not_of('/'), own->size()));
    if (!own || own->empty() || own->find('\0') != own->npos) {
        result.error = RouteError::bad_path;
    } else {
        result.path = std::move(*own);
    }
    return result;
}

HttpRoute const& HttpRouter::row(std::size_t route) const {
    static constexpr HttpRoute unknown{};
    return route < routes_.size() ? routes_[route] : unknown;
}

}  // namespace triton::net
