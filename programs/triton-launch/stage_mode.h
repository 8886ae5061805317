#pragma once

#include "programs/triton-launch/stage_flags.h"

namespace triton::program {

/// Runs mode init or sidecar to its end with what staging needs around it: the log, the summary of --format json,
/// progress on a terminal, inotify for --watch. See sidecar::stage(). Returns the exit code.
int run_stage(StageCommand const& command, char const* const* environment);

}  // namespace triton::program
