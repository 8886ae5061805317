#pragma once

#include "lib/base/result.h"
#include "programs/vminfod/options.h"

namespace triton::program {

/// Observes the host and serves what is seen, until a signal ends it. Errors: why it cannot begin.
Result<> run_daemon(DaemonOptions const& options);

}  // namespace triton::program
