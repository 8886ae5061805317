#pragma once

#include <array>
#include <optional>
#include <vector>

#include <sys/resource.h>

#include "lib/json/problem.h"
#include "lib/json/where.h"
#include "lib/process/attributes.h"
#include "lib/process/settings.h"

namespace triton::process {

/// What the kernel refused of some attributes: 0, or why.
struct Refusals {
    int oom_score = 0;
    int nice = 0;
    int cpu_affinity = 0;
    int root_directory = 0;
    int bounding = 0;
    int groups = 0;
    int group = 0;
    int user = 0;
    std::array<int, RLIM_NLIMITS> limits{};
};

/// Results of one load, so that equal programs cost as much as one. Not kept longer: paths, accounts
/// and the kernel's limits change.
struct LoadMemory {
    struct Trial {
        Attributes tried;  ///< only the tried ones
        Refusals refused;
    };
    std::vector<Trial> trials;
    std::vector<LandlockRuleset> rulesets;
    std::vector<SeccompFilter> filters;  ///< each once, in the order in which they were asked for
    bool is_tried = false;               ///< all of it, by another process: nothing is tried again
    /// What another process has prepared for the same load: the code of `filters`. Nothing is compiled then.
    std::optional<std::vector<SeccompFilter::Code>> prepared{};
};

/// Each filter of a document takes milliseconds to compile, and some kilobytes: the document's writer chooses how
/// many there are.
inline constexpr std::size_t most_filters = 64;

/// What of a program's attributes the kernel would refuse at each start: ids, limits, nice value, OOM score, CPUs, root
/// directory, bounding set. A child tries them and ends: whether they are possible depends on capabilities, user
/// namespaces, cpusets and limits of limits, and only the kernel knows all of its rules. Waits for that child, which
/// makes a dozen system calls, two seconds at most. `with`: what the program's attributes were resolved to.
/// Errors: all of them, such as "programs.web.nice: cannot set the nice value -5: Permission denied (it needs
/// CAP_SYS_NICE)". When there can be no child now, nothing is known: none.
/// Attributes that were tried before during the same load are not tried again.
json::Problems try_attributes(Settings const& settings, Attributes const& with, json::Where const& at,
                              LoadMemory& memory);

}  // namespace triton::process
