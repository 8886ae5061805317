#pragma once

#include <string>
#include <vector>

#include "lib/log/log.h"
#include "programs/triton-launch/flags.h"
#include "programs/triton-launch/launch_flags.h"
#include "sidecar/options.h"

namespace triton::program {

/// The modes init and sidecar.
struct StageCommand {
    sidecar::StageOptions options;
    log::Log::Settings log;
    std::vector<std::string> warnings = {};  ///< to be logged first
    /// Of a child whose standard output is read by the launcher: the summary goes to standard input as well, which then
    /// is the launcher's own standard output.
    bool repeats_summary = false;
};

/// Repeatable ones append, so those of the environment and of the command line add up, as in the shipped program.
void add_stage_flags(Flags& flags, StageCommand& command, Mode& mode);
/// With a listener there is a launcher to control.
void add_stage_control_flags(Flags& flags, launcher::LaunchOptions& options);

}  // namespace triton::program
