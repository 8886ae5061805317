#pragma once

#include <cstdint>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::content {

/// A moment since one boot. Steps of the wall clock do not change it, and suspended time counts (CLOCK_BOOTTIME).
struct BootTime {
    std::string boot;               ///< /proc/sys/kernel/random/boot_id
    std::int64_t milliseconds = 0;  ///< since that boot

    bool operator==(BootTime const&) const = default;
};

/// Errors: those of reading the boot id.
Result<BootTime> boot_time();

/// The time that has passed since `then`, at least: of an earlier boot, only the time of this boot is certain.
milliseconds passed_since(BootTime const& then, BootTime const& now);

}  // namespace triton::content
