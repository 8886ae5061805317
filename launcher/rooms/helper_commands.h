#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/children/children.h"
#include "launcher/rooms/agent_host.h"
#include "launcher/rooms/channels.h"
#include "launcher/rooms/program_table.h"
#include "launcher/rooms/report.h"
#include "launcher/rooms/rooms.h"
#include "lib/log/log.h"

namespace triton::launcher {

/// The process that a helper command is for.
ProcessId process_of_helper(Children::Key key);

/// Work for a process beside it: its hooks and probes. A command is run as a child, a probe over a network is
/// left to the agent; both end with one event::HelperEnded.
class HelperCommands {
public:
    /// All outlive this.
    HelperCommands(log::Log& log, ProgramTable const& table, Supervisor const& supervisor,
                   ReportWriter const& report_writer, Children& children, Channels& channels, AgentHost& agent,
                   EventSink& events)
        : log_(log),
          table_(table),
          supervisor_(supervisor),
          report_writer_(report_writer),
          children_(children),
          channels_(channels),
          agent_(agent),
          events_(events) {}

    void run(action::RunHelper const& action);
    void cancel(action::CancelHelper const& action);
    void ended(Children::Key key, Children::Outcome const& outcome);
    /// The log says that a command could not be executed.
    void tell_unexecuted(process::SpawnError const& error) const;
    /// Why a health check of this process has failed in this round; empty: it has not.
    [[nodiscard]] std::string_view failure_of(ProcessId id, std::size_t check) const;
    void end_round() { failures_.clear(); }

private:
    struct Failure {
        ProcessId id;
        std::size_t check;
        std::string why;
    };
    void tell_failure(ProcessId id, Helper helper, Children::Outcome const& outcome) const;
    [[nodiscard]] std::vector<std::string> variables_of(ProcessId id, Helper helper) const;

    log::Log& log_;
    ProgramTable const& table_;
    Supervisor const& supervisor_;
    ReportWriter const& report_writer_;
    Children& children_;
    Channels& channels_;
    AgentHost& agent_;
    EventSink& events_;
    std::vector<Failure> failures_;  // of health checks, in this round
};

}  // namespace triton::launcher
