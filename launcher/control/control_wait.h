#pragma once

#include <cstdint>

#include "launcher/control/control_backend.h"

namespace triton::launcher {

/// What a call waits for: the conditions of Wait, and the ends of Start, Stop and Restart.
enum class WaitFor : std::uint8_t { ready, up, down, done, started, stopped, restarted };

enum class WaitAnswer : std::uint8_t {
    not_yet,
    reached,
    never  ///< no longer possible by itself
};

/// Whether a process is where it is waited for. `starts_before`: ProcessStatus::starts when the command was given.
WaitAnswer judge(WaitFor what, ProcessStatus const& process, std::uint32_t starts_before);

/// Whether the processes that are no longer wanted, which only end, count too.
constexpr bool concerns_unwanted(WaitFor what) { return what == WaitFor::down || what == WaitFor::stopped; }

}  // namespace triton::launcher
