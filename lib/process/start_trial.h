#pragma once

#include "lib/json/problem.h"
#include "lib/json/where.h"
#include "lib/process/attributes.h"
#include "lib/process/settings.h"

namespace triton::process {

/// What of a program's attributes the kernel would refuse at each start: ids, limits, nice value, OOM score, CPUs, root
/// directory, bounding set. A child tries them and ends: whether they are possible depends on capabilities, user
/// namespaces, cpusets and limits of limits, and only the kernel knows all of its rules. Waits for that child, which
/// makes a dozen system calls, two seconds at most. `with`: what the program's attributes were resolved to.
/// Errors: all of them, such as "programs.web.nice: cannot set the nice value -5: Permission denied (it needs
/// CAP_SYS_NICE)". When there can be no child now, nothing is known: none.
json::Problems try_attributes(Settings const& settings, Attributes const& with, json::Where const& at);

}  // namespace triton::process
