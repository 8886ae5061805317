#pragma once

#include "launcher/plan/launch_options.h"
#include "lib/base/result.h"

namespace triton::launcher {

/// Launch mode: runs processes from a ProcessConfiguration until it is told to stop.
/// `environment`: as execve(2) takes it. Returns the exit code.
/// Errors: what keeps it from starting at all; once it runs nothing does.
Result<int> launch(LaunchOptions const& options, char const* const* environment);

}  // namespace triton::launcher
