#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launcher/plan/launch_options.h"
#include "lib/base/result.h"
#include "programs/triton-launch/flags.h"
#include "sidecar/options.h"

namespace triton::program {

enum class Kubernetes : std::uint8_t { automatic, on, off };

/// The agent's options on the command line.
struct AgentFlags {
    std::vector<std::string> listen;  ///< addresses
    std::vector<std::string> probe_listen;
    std::string listen_address;  ///< launch mode: one more, as the shipped monitor has it; empty: none
    std::string path;            ///< empty: beside our own program
    std::string user;
    std::vector<std::string> options;  ///< of its own, as they are
    bool has_tls = false;
    std::string certificate, key, authority, verify_peers;
    std::string plain_certificate, plain_key;  ///< fdb-kubernetes-monitor's: peers need no certificates
    std::string output_directory;              ///< launch mode: empty for none
    bool has_ui = false;                       ///< launch mode: serves the page
    std::string ui_token_file;
    Kubernetes kubernetes = Kubernetes::automatic;
    std::string annotation_prefix;
    bool watches_node = false;
};

/// Beside our own program.
std::string default_agent_path();

/// Those of every mode.
void add_agent_flags(Flags& flags, AgentFlags& agent);
/// Those of launch mode alone.
void add_report_flags(Flags& flags, AgentFlags& agent);

/// Whether the agent is asked for by the command line.
inline bool wants_listener(AgentFlags const& agent) {
    return !agent.listen.empty() || !agent.listen_address.empty() || !agent.probe_listen.empty();
}

/// What the launcher does about it, and the agent's command line. `launch`: what else the flags have said.
/// Errors: one line that names the flag.
Result<> resolve_agent(AgentFlags const& agent, std::string const& version_file, launcher::LaunchOptions& launch);

/// Modes init and sidecar with a listener: the launcher runs the staging and the agent. `arguments`: ours, with
/// argv[0].
Result<> resolve_stage_agent(AgentFlags const& agent, sidecar::StageOptions const& stage,
                             std::span<char const* const> arguments, launcher::LaunchOptions& launch);

}  // namespace triton::program
