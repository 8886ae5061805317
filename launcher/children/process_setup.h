#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/process/spawn.h"

namespace triton::launcher {

/// What a supervisor changes in its own process first of all, and restores for its children.
struct ProcessSetup {
    process::Inherited inherited;
    UniqueFd signals;  ///< a signalfd(2) for everything
    bool is_pid_1 = false;
    bool leads_session = false;         ///< then nobody above could continue us, should we stop
    bool is_machine = false;            ///< PID 1 of a systemd-nspawn machine: systemd's container interface applies
    std::vector<std::string> warnings;  ///< what could not be had
};

/// All above 2, but this one (-1: none).
void close_all_descriptors_but(int kept);

/// Blocks all signals and reads them from a descriptor; puts SIGCHLD to its default; becomes a
/// subreaper when not PID 1; has the kernel send `parent_death_signal` (0: none) when the parent dies; opens what is
/// missing of descriptors 0 to 2 on /dev/null and closes all others, unless `keeps_descriptors`.
/// Errors: those of signalfd(2).
Result<ProcessSetup> set_up_process(int parent_death_signal, bool keeps_descriptors = false);

}  // namespace triton::launcher
