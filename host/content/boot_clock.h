#pragma once

#include <cstdint>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::content {

/// A moment of this boot: no step of the wall clock moves it, and suspended time counts (CLOCK_BOOTTIME).
struct BootTime {
    std::string boot;               ///< /proc/sys/kernel/random/boot_id
    std::int64_t milliseconds = 0;  ///< since then

    bool operator==(BootTime const&) const = default;
};

/// Errors: those of reading the boot id.
Result<BootTime> boot_time();

/// How much time has passed since `then`, at the least: of an earlier boot only this boot's time is certain.
milliseconds passed_since(BootTime const& then, BootTime const& now);

}  // namespace triton::content
