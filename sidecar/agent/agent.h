#pragma once

#include "lib/base/result.h"
#include "sidecar/agent/handed_over.h"
#include "sidecar/agent/options.h"

namespace triton::agent {

/// Serves, probes and reports until SIGTERM or SIGINT, until a permitted client asks for a restart, or the launcher
/// that started us has ended. SIGHUP reads the certificates again.
/// Gives up all rights that it does not need first. Returns the exit code.
/// Errors: what keeps it from serving.
///
/// After its end the process must end too, without destructors: connections that were under way are left as they are.
Result<int> run_agent(AgentOptions options, HandedOver handed, char const* const* environment);

}  // namespace triton::agent
