#pragma once

#include <memory>
#include <string_view>

#include "launcher/plan/launch_options.h"
#include "launcher/plan/program_plan.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

/// The agent among the programs. No program of a configuration can have such a name.
inline constexpr std::string_view agent_name = "triton-agent";

struct AgentPlan {
    std::shared_ptr<ProgramPlan const> plan;
    UniqueFd program;  ///< stays open as long as the plan is used; empty: it is executed by its path
};

/// How the agent is run: as a program like any other, auxiliary to us. Its descriptors are the listening sockets
/// (plan->sockets), then the link's ("launcher"), then the output directory ("output") where there is one.
///
/// Its user: as the options say. Otherwise nobody (65534) if we are root and may change users; its supplementary groups
/// are ours without root's then, so that files which a pod shares by a group stay readable. Else it runs as we do.
/// Errors: everything that keeps it from running, one line.
Result<AgentPlan> plan_agent(AgentOptions const& agent, SourceOptions const& source, char const* const* environment);

}  // namespace triton::launcher
