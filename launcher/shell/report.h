#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "launcher/supervisor/supervisor.h"
#include "lib/log/log.h"

namespace triton::process {
class StartPlan;
}

namespace triton::launcher {

/// What the log needs to know of a program.
struct ProgramName {
    std::string_view name;    ///< empty: the unnamed one
    bool has_numbers = true;  ///< a number tells something: there is more than one process, or no name
    process::StartPlan const* plan = nullptr;
};

/// Tells of what the supervisor wanted done, one log record an action.
class Reporter {
public:
    /// `names`: valid for the call only. Both outlive this.
    Reporter(log::Log& log, std::function<ProgramName(ProgramId)> names) : log_(log), names_(std::move(names)) {}

    /// `is_stopping`: the launcher as a whole, which was told in one line for all.
    void tell(Action const& action, bool is_stopping);

    /// "process 2" of the unnamed program, "web" or "web:2" of a named one.
    [[nodiscard]] std::string who(ProcessId id) const;

private:
    void tell_exit(action::ReportExited const& exited);
    void tell_start_failure(action::ReportStartFailed const& failed);
    void tell_signal(action::Signal const& signal, bool is_stopping);
    void write(log::LogLevel level, std::string_view event, std::string const& message, ProcessId id,
               std::initializer_list<log::LogField> fields);

    log::Log& log_;
    std::function<ProgramName(ProgramId)> names_;
};

/// For people: three digits are enough.
std::string short_duration(Duration duration);
/// For records: seconds, to the millisecond.
double as_seconds(Duration duration);
/// "1 process", "2 processes"
std::string count_text(std::uint32_t count);

}  // namespace triton::launcher
