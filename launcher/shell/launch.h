#pragma once

#include <expected>
#include <utility>

#include "launcher/plan/launch_options.h"
#include "lib/base/result.h"

namespace triton::launcher {

/// Why it did not start, and what to exit with.
struct LaunchFailure {
    LaunchFailure(Error why, int code = 1) : error(std::move(why)), exit_code(code) {}  // NOLINT(*-explicit-*): TRY

    Error error;
    int exit_code;
};

/// Launch mode: runs processes from a ProcessConfiguration until it is told to stop.
/// `environment`: as execve(2) takes it. Returns the exit code.
/// Errors: what keeps it from starting at all; once it runs nothing does. A command beside the programs that cannot be
/// executed is one, with the code that a shell has for that.
std::expected<int, LaunchFailure> launch(LaunchOptions const& options, char const* const* environment);

}  // namespace triton::launcher
