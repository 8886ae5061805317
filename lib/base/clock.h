#pragma once

#include <chrono>
#include <cstdint>

namespace triton {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// Monotonic time (CLOCK_MONOTONIC). Wall time is for showing only: it steps.
using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;

inline TimePoint steady_now() { return std::chrono::steady_clock::now(); }

/// Wall time in microseconds since 1970, UTC.
inline std::int64_t wall_microseconds() {
    auto const since = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}

}  // namespace triton
