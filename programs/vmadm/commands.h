#pragma once

#include <span>

#include "programs/vmadm/command_line.h"

namespace triton::program {

/// The commands of each area; commands() has them all.
std::span<Command const> life_commands();    ///< make, run and remove machines
std::span<Command const> look_commands();    ///< show them
std::span<Command const> change_commands();  ///< change properties and snapshots
std::span<Command const> copy_commands();    ///< copy, send and receive whole machines
std::span<Command const> inside_commands();  ///< reach into them
std::span<Command const> completion_commands();

}  // namespace triton::program
