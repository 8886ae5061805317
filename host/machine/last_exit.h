#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::machine {

/// How a machine has ended. systemd forgets that together with the unit, so a file keeps it:
/// {"ended_at":1794300000123456,"exit_status":0,"oom_kills":2}.
struct LastExit {
    std::int64_t ended_at = 0;     ///< microseconds since 1970
    std::int64_t exit_status = 0;  ///< an exit code, or the number of a signal
    bool is_signal = false;        ///< systemd-nspawn itself was ended by a signal
    std::int64_t oom_kills = 0;    ///< processes that the kernel killed for want of memory since the machine's start
    bool operator==(LastExit const&) const = default;
};

/// "it exited with 1; the kernel killed 2 processes for want of memory", "it rebooted from inside".
std::string reason_of(LastExit const& exit);

std::string last_exit_text(LastExit const& exit);
/// Errors: corrupt.
Result<LastExit> parse_last_exit(std::string const& text, std::string const& path);

/// The status in systemd's EXIT_STATUS, which is a number or the name of a signal: "133", "KILL", "RTMIN+3".
std::optional<std::int64_t> parse_exit_status(std::string_view text);

}  // namespace triton::machine
