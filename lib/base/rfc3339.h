#pragma once

#include <cstdint>
#include <string>

namespace triton {

/// A time in UTC as documents have it: "2026-11-21T14:00:00Z". Source: RFC 3339, section 5.6.
std::string rfc3339(std::int64_t unix_seconds);

}  // namespace triton
