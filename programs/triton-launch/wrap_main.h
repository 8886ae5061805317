#pragma once

#include "launcher/wrap/wrap.h"
#include "lib/base/result.h"

namespace triton::program {

/// Wrap mode with libc at hand: the options that need words or durations (-v, -w, --stop-timeout), and the messages for
/// what went wrong before libc had started. Returns the exit code. `parsed`: of parse_wrap(), with its options.
int wrap_main(launcher::WrapParsed const& parsed, launcher::WrapOptions& options, int argc, char** argv, char** envp);

/// Says why the command could not be started. Returns the exit code: 127 not found, 126 cannot be executed, 1 else;
/// under the name of another program that program's.
int report_wrap_failure(launcher::WrapOutcome const& outcome, launcher::WrapOptions const& options,
                        char const* command);

}  // namespace triton::program
