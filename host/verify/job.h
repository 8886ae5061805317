#pragma once

#include "host/role/sandbox.h"

namespace triton::verify {

/// Takes its one job from the channel, confines the process, and does the job. Before that it looks at nothing of a
/// file, a pipe or a document. Returns the exit status: 0 when an answer was given, good or bad.
int run_job(role::Started& started);

}  // namespace triton::verify
