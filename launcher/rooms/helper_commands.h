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
#include "launcher/services/check_output.h"
#include "launcher/supervisor/process_history.h"
#include "lib/log/log.h"

namespace triton::launcher {

/// The process that a helper command is for.
ProcessId process_of_helper(Children::Key key);

/// Work for a process beside it: its hooks and probes. A command is run as a child, a probe over a network is
/// left to the agent; both end with one event::HelperEnded.
class HelperCommands {
public:
    /// All outlive this.
    HelperCommands(EventLoop& loop, log::Log& log, ProcessHistory& history, ProgramTable const& table,
                   Supervisor const& supervisor, ReportWriter const& report_writer, Children& children,
                   Channels& channels, AgentHost& agent, EventSink& events)
        : log_(log),
          history_(history),
          outputs_(loop),
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
    /// The latest failures of a process's readiness probe; none once it was ready.
    [[nodiscard]] ReadinessFailures readiness_failures(ProcessId id) const;
    /// After it was logged.
    void reported(Report const& report);
    void end_round() { failures_.clear(); }

    // For an upgrade.
    void save(UpgradeState& state) const { state.history.outputs = outputs_.export_state(); }
    void restore(UpgradeState& state) { outputs_.import_state(std::move(state.history.outputs)); }

private:
    struct Failure {
        ProcessId id;
        std::size_t check;
        std::string why;
    };
    void tell_failure(ProcessId id, Helper helper, Children::Outcome const& outcome) const;
    void note_result(ProcessId id, Helper helper, Children::Outcome const& outcome, std::string output);
    void tell_not_ready(ProcessId id, std::string const& why, std::string const& shown);
    [[nodiscard]] bool waits_for_a_line(ProcessId id, Helper helper) const;
    [[nodiscard]] std::vector<std::string> variables_of(ProcessId id, Helper helper) const;

    log::Log& log_;
    ProcessHistory& history_;
    CheckOutput outputs_;
    ReadinessNews news_;
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
