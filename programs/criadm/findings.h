#pragma once

#include "programs/criadm/command_line.h"

namespace triton::program {

/// Prints what tritoncrid finds left over or failing, and lets it repair that. Errors: `refused`: something is left.
Outcome check_node(Options const& options, bool repairs);

}  // namespace triton::program
