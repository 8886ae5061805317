#pragma once

#include <cstdint>

namespace triton::process {

/// Where a start failed, in the order in which the stages come. Each has a text: stage_text() in spawn.h.
enum class SpawnStage : std::uint8_t {
    clone,
    cgroup,
    descriptors,  ///< behind process_group and input
    process_group,
    oom_score,
    resource_limit,
    nice,
    cpu_affinity,
    root_directory,
    bounding_capabilities,
    groups,
    group,
    user,
    capabilities,
    no_new_privileges,
    parent_death_signal,
    working_directory,
    landlock,
    seccomp,
    execute,
    // The numbers travel in an upgrade's state: what is new stands behind them.
    terminal,              ///< before clone: there is none to be had
    controlling_terminal,  ///< instead of process_group
    input,                 ///< behind process_group: the file that is to be the standard input
};

struct SpawnError {
    SpawnStage stage;
    int code;  ///< errno

    bool operator==(SpawnError const&) const = default;
};

}  // namespace triton::process
