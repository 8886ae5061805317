#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace triton {

/// A time in UTC as documents have it: "2026-11-21T14:00:00Z". A time beyond the years 0 to 9999 is shown as the epoch.
/// Source: RFC 3339, section 5.6.
std::string rfc3339(std::int64_t unix_seconds);

/// The same with microseconds, for lines that come close together: "2026-11-21T14:00:00.000000Z".
class TimeText {
public:
    static constexpr std::size_t length = 27;

    /// Valid until the next call.
    std::string_view at(std::int64_t microseconds_since_epoch);

private:
    std::int64_t second_ = INT64_MIN;
    std::array<char, length> text_{};
};

}  // namespace triton
