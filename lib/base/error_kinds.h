#pragma once

#include <array>
#include <string_view>

#include "lib/base/result.h"

namespace triton {

/// What an ErrorKind means to each kind of client. The one place that says so.
struct ErrorKindRow {
    ErrorKind kind;
    std::string_view name;  ///< in JSON
    unsigned http_status;   ///< RFC 9110, section 15
    int exit_code;          ///< of our commands: 1 refused or failed, 2 usage, 3 unreachable, 4 timeout
    /// The error of an interface of ours, without the interface: its parameters are `reason` and `details`. "Refused"
    /// says that nothing was tried, so that asking again later is safe; "Failed" that it was.
    std::string_view varlink_error;
};

inline constexpr std::array<ErrorKindRow, 11> error_kinds{{
    {ErrorKind::invalid, "invalid", 400, 2, "Failed"},
    {ErrorKind::not_found, "notFound", 404, 1, "Failed"},
    {ErrorKind::exists, "exists", 409, 1, "Failed"},
    {ErrorKind::refused, "refused", 403, 1, "Refused"},
    {ErrorKind::busy, "busy", 409, 1, "Refused"},
    {ErrorKind::unavailable, "unavailable", 503, 3, "Failed"},
    {ErrorKind::timeout, "timeout", 504, 4, "Failed"},
    {ErrorKind::denied, "denied", 403, 1, "Failed"},
    {ErrorKind::corrupt, "corrupt", 502, 1, "Failed"},
    {ErrorKind::unsupported, "unsupported", 501, 1, "Failed"},
    {ErrorKind::internal, "internal", 500, 1, "Failed"},
}};

constexpr ErrorKindRow const& row_of(ErrorKind kind) { return error_kinds[static_cast<std::size_t>(kind)]; }

static_assert([] {
    for (ErrorKindRow const& row : error_kinds)
        if (&row_of(row.kind) != &row) return false;
    return row_of(ErrorKind::internal).kind == error_kinds.back().kind;
}());

}  // namespace triton
