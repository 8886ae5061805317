#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

/// The places of HTTP/1.1 where two readers may understand two different things, read in one way only.
namespace triton::net {

/// What a buffer holds of a request's first line.
enum class LineVerdict : std::uint8_t {
    incomplete,   ///< more is needed
    good,         ///< a parser that knows HTTP/1.0 and 1.1 can read it
    bad,          ///< no request begins like that
    bad_version,  ///< of another major version
    too_long,
};
/// Looks at the first line, at most `longest` bytes of it. A later minor version becomes 1.1 in the buffer: it is to be
/// answered as the highest one that we know. Source: RFC 9110, 2.5; RFC 9112, 3.
LineVerdict check_request_line(std::span<char> buffer, std::size_t longest);

/// A request's target in origin or absolute form, in its parts.
struct Target {
    std::string_view authority;  ///< of the absolute form
    std::string_view path;       ///< begins with '/' where there is one
    std::string_view query;
    bool operator==(Target const&) const = default;
};
/// nullopt: an absolute form without a good authority. Source: RFC 9112, 3.2; the scheme's case means nothing.
std::optional<Target> parse_target(std::string_view target);

/// A host as uri-host [":" port]; an empty one is good too. Source: RFC 9112, 3.2; RFC 3986, 3.2.2.
bool is_host_field(std::string_view text);

/// Whether a comma-separated list has the token, in whatever case.
bool has_token(std::string_view list, std::string_view token);

/// Decimal digits, at least one.
bool is_number(std::string_view text);

/// Without escapes; nullopt: a bad one. "+" is a plus: this is a path, not a form.
std::optional<std::string> unescaped(std::string_view text);

}  // namespace triton::net
