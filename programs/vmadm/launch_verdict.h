#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/machine/machine.h"
#include "host/machine/machines.h"

namespace triton::program {

/// What a machine's launcher says of its configuration. It comes from inside of the machine, so its owner may have made
/// it up.
struct LaunchVerdict {
    std::int64_t changes = 0;                 ///< how often it has taken another configuration
    std::vector<std::string> rejection = {};  ///< why it does not take the newest one; empty: it has taken it
};

/// nullopt: it has no launcher that answers.
std::optional<LaunchVerdict> launch_verdict(machine::Machine const& machine);

/// Waits for the verdict on a configuration that a running machine has just been given, for two seconds at most.
/// Returns the reasons why it is rejected, ready to be shown; none when it is taken, or nothing is said.
std::vector<std::string> await_verdict(machine::Machines& machines, Uuid const& uuid, LaunchVerdict const& before);

}  // namespace triton::program
