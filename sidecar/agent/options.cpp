#include "sidecar/agent/options.h"

#ifndef TRITON_AGENT_VERSION
#define TRITON_AGENT_VERSION "unknown"
#endif

namespace triton::agent {

std::string agent_version() { return TRITON_AGENT_VERSION; }

}  // namespace triton::agent
