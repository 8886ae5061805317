#pragma once

#include <sys/types.h>

#include "launcher/control/control_backend.h"

namespace triton::launcher {

/// Resident memory and processor time of one process, for where there is no cgroup to ask.
/// Returns what could be read; nothing once the process has been reaped. Sources: proc(5), "/proc/[pid]/statm", and
/// clock_getcpuclockid(3); "/proc/[pid]/stat" has both, among fifty fields that the kernel computes.
ProcessUsage read_process_usage(pid_t pid);

}  // namespace triton::launcher
