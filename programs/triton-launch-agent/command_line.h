#pragma once

#include <string>

#include "lib/base/result.h"
#include "sidecar/agent/options.h"

namespace triton::program {

struct AgentCommandLine {
    agent::AgentOptions options;
    std::string text;  ///< --help or --version: print it and end
};

/// Reads the command line. Each flag also has an environment variable, TRITON_AGENT_ and its name in capitals with `_`
/// for `-`; the command line wins, and what may be repeated adds up. With --tls what no flag names comes from
/// FDB_TLS_CERTIFICATE_FILE, FDB_TLS_KEY_FILE, FDB_TLS_CA_FILE, FDB_TLS_VERIFY_PEERS and FDB_TLS_PASSWORD; with
/// --kubernetes from KUBERNETES_SERVICE_HOST and _PORT, FDB_POD_NAME, POD_NAME or HOSTNAME, FDB_POD_NAMESPACE or
/// POD_NAMESPACE, FDB_NODE_NAME or NODE_NAME.
/// Errors: one line that names the flag and what is wrong with it.
Result<AgentCommandLine> parse_agent_command_line(int argc, char const* const* argv, char const* const* environment);

}  // namespace triton::program
