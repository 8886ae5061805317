#pragma once

#include "lib/base/result.h"
#include "programs/volumemgr/options.h"

namespace triton::program {

/// Serves until there is nothing to do, or a signal ends it.
Result<> run_manager(ManagerOptions const& options);

}  // namespace triton::program
