#pragma once

#include "lib/base/result.h"
#include "programs/tritoncrid/options.h"

namespace triton::program {

/// Serves until a signal ends it. Returns only errors: why it could not begin.
Result<> run_cri_daemon(CriOptions const& options);

}  // namespace triton::program
