#pragma once

#include <array>
#include <string_view>

#include "lib/base/result.h"

namespace triton {

/// What an ErrorKind means to each kind of client. The one place that says so.
struct ErrorKindRow {
    ErrorKind kind;
    std::string_view name;  ///< in JSON
    unsigned http_status;   ///< RFC 9110, section 15; 507: RFC 4918
    int exit_code;          ///< of our commands: 1 refused or failed, 2 usage, 3 unreachable, 4 timeout
    /// The error of an interface of ours, without the interface: its parameters are `reason` and `details`. "Refused"
    /// says that nothing was tried, so that asking again later is safe; "Failed" that it was.
    std::string_view varlink_error;
    int grpc_code;  ///< https://grpc.io/docs/guides/status-codes/
};

inline constexpr std::array<ErrorKindRow, 12> error_kinds{{
    {ErrorKind::invalid, "invalid", 400, 2, "Failed", 3},
    {ErrorKind::not_found, "notFound", 404, 1, "Failed", 5},
    {ErrorKind::exists, "exists", 409, 1, "Failed", 6},
    {ErrorKind::refused, "refused", 403, 1, "Refused", 9},
    {ErrorKind::busy, "busy", 409, 1, "Refused", 9},
    {ErrorKind::unavailable, "unavailable", 503, 3, "Failed", 14},
    {ErrorKind::exhausted, "exhausted", 507, 1, "Failed", 8},
    {ErrorKind::timeout, "timeout", 504, 4, "Failed", 4},
    {ErrorKind::denied, "denied", 403, 1, "Failed", 7},
    {ErrorKind::corrupt, "corrupt", 502, 1, "Failed", 15},
    {ErrorKind::unsupported, "unsupported", 501, 1, "Failed", 12},
    {ErrorKind::internal, "internal", 500, 1, "Failed", 13},
}};

/// Whether the same attempt can succeed a moment later, because what the system lacked came back.
constexpr bool is_shortage(ErrorKind kind) { return kind == ErrorKind::unavailable || kind == ErrorKind::exhausted; }

constexpr ErrorKindRow const& row_of(ErrorKind kind) { return error_kinds[static_cast<std::size_t>(kind)]; }

static_assert([] {
    for (ErrorKindRow const& row : error_kinds)
        if (&row_of(row.kind) != &row) return false;
    return row_of(ErrorKind::internal).kind == error_kinds.back().kind;
}());

}  // namespace triton
