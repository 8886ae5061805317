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
};

inline constexpr std::array<ErrorKindRow, 11> error_kinds{{
    {ErrorKind::invalid, "invalid", 400},
    {ErrorKind::not_found, "notFound", 404},
    {ErrorKind::exists, "exists", 409},
    {ErrorKind::refused, "refused", 403},
    {ErrorKind::busy, "busy", 409},
    {ErrorKind::unavailable, "unavailable", 503},
    {ErrorKind::timeout, "timeout", 504},
    {ErrorKind::denied, "denied", 403},
    {ErrorKind::corrupt, "corrupt", 502},
    {ErrorKind::unsupported, "unsupported", 501},
    {ErrorKind::internal, "internal", 500},
}};

constexpr ErrorKindRow const& row_of(ErrorKind kind) { return error_kinds[static_cast<std::size_t>(kind)]; }

static_assert([] {
    for (ErrorKindRow const& row : error_kinds)
        if (&row_of(row.kind) != &row) return false;
    return row_of(ErrorKind::internal).kind == error_kinds.back().kind;
}());

}  // namespace triton
