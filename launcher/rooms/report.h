#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "config/program.h"
#include "launcher/plan/program_plan.h"
#include "launcher/supervisor/actions.h"
#include "lib/log/log.h"
#include "lib/process/cgroup.h"

namespace triton::process {
class StartPlan;
}

namespace triton::launcher {

/// The log's data of a program.
struct ProgramName {
    std::string_view name;    ///< empty: the unnamed one
    bool has_numbers = true;  ///< numbers are shown: there is more than one process, or no name
    process::StartPlan const* plan = nullptr;
    std::span<config::Health const> checks = {};
    NetworkProbe const* readiness = nullptr;  ///< that the agent makes
};

struct RefusedSignal {
    action::Signal signal;
    int error;  ///< errno
};
struct RefusedRest {
    action::SignalRest signal;
    process::RefusedSignals refused;
};
/// The content of the log: every report, and the effects that people want to see.
using Told = std::variant<action::Signal, action::SignalRest, RefusedSignal, RefusedRest, Report>;

/// Of the readiness probes of a process that is not ready.
struct ReadinessFailures {
    std::uint32_t count = 0;  ///< 0: an earlier version of the launcher has counted them
    std::string why;          ///< the latest one; empty: none has failed
};

/// Logs the supervisor's decisions, one record for each.
class ReportWriter {
public:
    using WhyOfCheck = std::function<std::string_view(ProcessId, std::size_t check)>;
    using WhyNotReady = std::function<ReadinessFailures(ProcessId)>;
    /// `names`, `why` (of a health check's latest failure): their results are for the call only. All outlive this.
    ReportWriter(log::Log& log, std::function<ProgramName(ProgramId)> names, WhyOfCheck why, WhyNotReady why_not_ready)
        : log_(log), names_(std::move(names)), why_(std::move(why)), why_not_ready_(std::move(why_not_ready)) {}

    /// `is_stopping`: the launcher as a whole, which was reported in one line for all.
    void tell(Told const& told, bool is_stopping);

    /// "process 2" of the unnamed program, "web" or "web:2" of a named one.
    [[nodiscard]] std::string who(ProcessId id) const;

private:
    void tell(action::Signal const& signal, bool is_stopping);
    void tell(action::SignalRest const& signal, bool is_stopping);
    void tell(RefusedSignal const& refused, bool is_stopping);
    void tell(RefusedRest const& rest, bool is_stopping);
    void tell(Report const& report, bool is_stopping);
    void on(action::ReportStarted const& started);
    void on(action::ReportMain const& main);
    void on(action::ReportReady const& ready);
    void on(action::ReportExited const& exited);
    void on(action::ReportStartFailed const& failed);
    void on(action::ReportLeft const& left);
    void on(action::ReportGaveUp const& gave_up);
    void on(action::ReportTimedOut const& late);
    void on(action::ReportUnhealthy const& unhealthy);
    void on(action::ReportHealthy const& healthy);
    void on(action::ReportSkipped const& skipped);
    void on(action::ReportEnding const& ending);
    void write(log::LogLevel level, std::string_view event, std::string const& message, ProcessId id,
               std::initializer_list<log::LogField> fields) {
        write(level, event, message, id, std::span(fields));
    }
    void write(log::LogLevel level, std::string_view event, std::string const& message, ProcessId id,
               std::span<log::LogField const> fields);

    [[nodiscard]] std::string_view name_of_check(ProcessId id, std::size_t check) const;

    log::Log& log_;
    std::function<ProgramName(ProgramId)> names_;
    WhyOfCheck why_;
    WhyNotReady why_not_ready_;
};

/// For people: three digits are enough.
std::string short_duration(Duration duration);
/// Why a process could not be signalled, for this errno.
std::string signal_error_text(int error);
/// "1 process", "2 processes"
std::string count_text(std::uint32_t count);

}  // namespace triton::launcher
