#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace triton::net {

enum class HttpMethod : std::uint8_t {
    get,  ///< and HEAD
    post,
};

/// One thing that can be asked for.
struct HttpRoute {
    std::string_view path;  ///< a literal; one that ends in a slash, except "/", is followed by the caller's own path
    HttpMethod method = HttpMethod::get;
    bool is_open = false;    ///< for peers without a certificate too, where TLS asks for one
    bool is_urgent = false;  ///< cheap and never put off: probes
};

enum class RouteError : std::uint8_t {
    none,
    bad_path,   ///< a bad escape, a NUL, no path in it
    not_found,  ///< no such route
    method,     ///< there is one, for another method; `allowed` says which
};

struct RouteMatch {
    std::size_t route = 0;  ///< its place in the table; of an unknown one the table's size
    RouteError error = RouteError::none;
    std::string path;          ///< the caller's own: relative, unescaped, not yet confined
    std::string_view allowed;  ///< methods of the route
};

/// Finds the row that a request is for. The table's order is the routes' numbers.
class HttpRouter {
public:
    explicit HttpRouter(std::vector<HttpRoute> routes) : routes_(std::move(routes)) {}

    /// `path`: of the target, with its escapes.
    [[nodiscard]] RouteMatch match(std::string_view method, std::string_view path) const;
    /// A row; for an unknown one, a row that is neither open nor urgent.
    [[nodiscard]] HttpRoute const& row(std::size_t route) const;
    [[nodiscard]] std::vector<HttpRoute> const& rows() const { return routes_; }

private:
    std::vector<HttpRoute> routes_;
};

}  // namespace triton::net
