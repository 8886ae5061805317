#pragma once

#include <chrono>

namespace triton {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// Monotonic time (CLOCK_MONOTONIC). Wall time is for showing only: it steps.
using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;

}  // namespace triton
