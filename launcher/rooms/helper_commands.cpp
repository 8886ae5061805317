#include "launcher/rooms/helper_commands.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <string>
#include <utility>

#include <sys/wait.h>

#include "lib/base/http_field.h"
#include "lib/base/signal_text.h"

namespace triton::launcher {

using process::CommandRunner;

namespace {

Children::Key key_of(ProcessId id, Helper helper) {
    return static_cast<Children::Key>(id.program) << 32 | static_cast<Children::Key>(id.number) << 8 |
           static_cast<Children::Key>(helper);
}
Helper helper_of(Children::Key key) { return static_cast<Helper>(key & 0xff); }

std::string_view helper_text(Helper helper) {
    switch (helper) {
        case Helper::pre_stop: return "preStop";
        case Helper::on_failure: return "onFailure";
        case Helper::readiness: return "readiness";
        case Helper::health:
        case Helper::health_2:
        case Helper::health_3:
        case Helper::health_4:
        case Helper::health_5:
        case Helper::health_6:
        case Helper::health_7:
        case Helper::health_8: return "health";
        case Helper::on_success: return "onSuccess";
        case Helper::on_stop: return "onStop";
    }
    std::unreachable();
}

bool is_probe(Helper helper) { return helper == Helper::readiness || check_of(helper); }

std::string outcome_text(Children::Outcome const& outcome) {
    switch (outcome.how) {
        case CommandRunner::How::exited: return "exit code " + std::to_string(outcome.code);
        case CommandRunner::How::signalled: return signal_text(outcome.code);
        case CommandRunner::How::timed_out: return "it took too long";
        case CommandRunner::How::cancelled: return "cancelled";
        case CommandRunner::How::not_started: return outcome.error.text();
    }
    std::unreachable();
}

/// How the process ended, or why it is being stopped. Where systemd.exec(5) has a word for it in $SERVICE_RESULT, that
/// word is used.
std::string_view result_of(ProcessView const& view, bool was_oom_killed, Helper helper) {
    switch (view.fault) {
        case Fault::none: break;
        case Fault::start_timeout: return "timeout";
        case Fault::watchdog: return "watchdog";
        case Fault::unhealthy: return "unhealthy";
        case Fault::run_timeout: return "run-timeout";
    }
    if (helper == Helper::pre_stop || helper == Helper::on_stop) return "stop";
    if (helper == Helper::on_success) return "success";
    if (view.last_error) return "start-failed";
    if (was_oom_killed) return "oom-kill";
    int const status = view.last_status.value_or(0);
    if (WIFSIGNALED(status)) return WCOREDUMP(status) ? "core-dump" : "signal";
    return "exit-code";
}

/// The reason of a failure with the last line that the check has printed, which mostly says more.
std::string with_last_line(std::string why, std::string_view output) {
    constexpr std::size_t longest_line = 200;
    constexpr std::string_view blanks = " \t\r\n";
    output = output.substr(0, output.find_last_not_of(blanks) + 1);
    std::string_view const line = trimmed(output.substr(output.find_last_of("\r\n") + 1));
    if (line.empty()) return why;
    return std::move(why.append(": ").append(line.substr(0, longest_line)));
}

std::int64_t microseconds_now() {
    using namespace std::chrono;
    return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

/// "12.345"
std::string seconds_text(Duration duration) {
    auto const milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
    std::string const fraction = std::to_string(1000 + milliseconds % 1000);
    return std::to_string(milliseconds / 1000) + "." + fraction.substr(1);
}

}  // namespace

ProcessId process_of_helper(Children::Key key) {
    return {ProgramId{static_cast<std::uint32_t>(key >> 32)},
            ProcessNumber{static_cast<std::uint32_t>(key >> 8 & 0xffffff)}};
}

void HelperCommands::run(action::RunHelper const& action) {
    ProgramTable::Entry const& program = table_[action.id.program];
    HelperPlan const helper = program.plan ? program.plan->helper(action.helper) : HelperPlan{};
    Children::Key const key = key_of(action.id, action.helper);
    if (helper.network) return agent_.run_probe(key, helper, action.id.number);
    // A hook is owed, whatever has become of the one before it; of probes there are more to come.
    auto const former = is_probe(action.helper) ? CommandRunner::Former::awaited : CommandRunner::Former::left;
    auto const spawn = [&]() -> Result<pid_t> {
        if (!helper.start)
            return fail(ErrorKind::not_found, "run " + std::string(helper_text(action.helper)),
                        "the configuration has none");
        Channels::Hands hands = TRY(channels_.for_command(action.id, action.helper));
        auto const variables = variables_of(action.id, action.helper);
        hands.files.variables = variables;
        if (!channels_.has_groups()) hands.files.mark = children_.next_mark();
        if (is_probe(action.helper)) {
            // Else nobody sees what it prints.
            if (auto const end = outputs_.begin(key)) hands.files.out = hands.files.err = *end;
        }
        return children_.spawn_command(helper.start, action.id.number, hands.files, action.id);
    };
    children_.run_command(key, helper.timeout, spawn, former);
    outputs_.end_start(key);
}

/// The variables that tell a hook about the process it runs for, besides its program and number, which all its
/// processes have.
std::vector<std::string> HelperCommands::variables_of(ProcessId id, Helper helper) const {
    if (is_probe(helper)) return {};
    ProcessView const view = supervisor_.view(id);
    bool const lives = view.pid.has_value();
    ProgramTable::Instance const* const mine = table_.find_instance(id);
    TimePoint const end = lives ? std::chrono::steady_clock::now() : view.last_end.value_or(view.since);
    std::vector<std::string> variables{
        "TRITON_RESULT=" + std::string(result_of(view, mine && mine->was_oom_killed, helper)),
        "TRITON_RESTARTS=" + std::to_string(view.starts > 0 ? view.starts - 1 : 0)};
    if (!view.last_error || lives) {
        if (view.latest_pid != Pid{})
            variables.push_back("TRITON_PID=" + std::to_string(static_cast<pid_t>(view.latest_pid)));
        variables.push_back("TRITON_RUN_SECONDS=" + seconds_text(end - view.since));
    }
    if (lives) return variables;
    if (view.last_error) {
        auto const& plan = table_[id.program].plan;
        std::string const what =
            process::stage_text(view.last_error->stage, plan ? plan->start.get() : nullptr, id.number);
        variables.push_back("TRITON_ERROR=" + what + ": " + errno_text(view.last_error->code));
    } else if (int const status = view.last_status.value_or(0); WIFSIGNALED(status)) {
        variables.push_back("TRITON_EXIT_SIGNAL=" + signal_text(WTERMSIG(status)));
    } else {
        variables.push_back("TRITON_EXIT_CODE=" + std::to_string(WEXITSTATUS(status)));
    }
    return variables;
}

void HelperCommands::cancel(action::CancelHelper const& action) {
    Children::Key const key = key_of(action.id, action.helper);
    if (!agent_.cancel_probe(key)) children_.cancel_command(key);
}

void HelperCommands::ended(Children::Key key, Children::Outcome const& outcome) {
    ProcessId const id = process_of_helper(key);
    Helper const helper = helper_of(key);
    channels_.command_ended(id, helper);
    try {
        std::string output = outputs_.end(key);
        tell_failure(id, helper, outcome);  // first, since a stop may be waiting for nothing else
        if (is_probe(helper) && outcome.how != CommandRunner::How::cancelled)
            note_result(id, helper, outcome, std::move(output));
    } catch (std::bad_alloc const&) {
        // The line is lost. The end is not: nobody would tell of it again.
    }
    events_.dispatch(event::HelperEnded{id, helper, outcome.is_ok()});
}

/// Remembers a result for whoever asks later, and reports what is news now.
void HelperCommands::note_result(ProcessId id, Helper helper, Children::Outcome const& outcome, std::string output) {
    std::string why = outcome.is_ok() ? "" : outcome_text(outcome);
    if (!outcome.is_ok()) {
        std::string shown = with_last_line(why, output);
        if (auto const check = check_of(helper)) {
            failures_.push_back({id, *check, std::move(shown)});
        } else if (!waits_for_a_line(id, helper)) {
            tell_not_ready(id, why, shown);
        }
    }
    history_.add({.program = static_cast<std::uint32_t>(id.program),
                  .number = static_cast<std::uint32_t>(id.number),
                  .helper = static_cast<std::uint8_t>(helper),
                  .is_ok = outcome.is_ok(),
                  .time = microseconds_now(),
                  .why = std::move(why),
                  .output = std::move(output)});
}

/// What a probe prints may differ each time, so only `why` decides whether a line is due.
void HelperCommands::tell_not_ready(ProcessId id, std::string const& why, std::string const& shown) {
    std::uint32_t const count = news_.failed(id, why, std::chrono::steady_clock::now());
    if (count == 0) return;
    std::string message = report_writer_.who(id) + " is not ready: " + shown;
    if (count > 1) message += "; " + std::to_string(count) + " probes have failed so far";
    log_.write(log::LogLevel::info, "process-not-ready", message,
               {{"program", std::string_view(table_[id.program].name)},
                {"process", static_cast<std::int64_t>(id.number)},
                {"error", std::string_view(shown)},
                {"failures", std::int64_t{count}}});
}

ReadinessFailures HelperCommands::readiness_failures(ProcessId id) const {
    ProbeRecord const* const last = history_.failure_of(id, Helper::readiness);
    ReadinessFailures failures{news_.count(id), {}};  // it may have succeeded since
    if (last && !waits_for_a_line(id, Helper::readiness)) failures.why = with_last_line(last->why, last->output);
    return failures;
}

void HelperCommands::reported(Report const& report) {
    if (auto const* const ready = std::get_if<action::ReportReady>(&report)) news_.forget(ready->id);
    if (auto const* const exited = std::get_if<action::ReportExited>(&report)) news_.forget(exited->id);
    if (auto const* const failed = std::get_if<action::ReportStartFailed>(&report)) news_.forget(failed->id);
}

/// Whether it is a probe that waits for a line of output. Such a one can fail only because of its pattern.
bool HelperCommands::waits_for_a_line(ProcessId id, Helper helper) const {
    auto const& plan = table_[id.program].plan;
    return helper == Helper::readiness && plan && plan->helper(helper).network &&
           plan->helper(helper).network->kind == config::ProbeKind::log;
}

std::string_view HelperCommands::failure_of(ProcessId id, std::size_t check) const {
    auto const found = std::ranges::find_if(
        failures_, [&](Failure const& failure) { return failure.id == id && failure.check == check; });
    return found == failures_.end() ? std::string_view() : found->why;
}

void HelperCommands::tell_unexecuted(process::SpawnError const& error) const {
    std::string const why = process::stage_text(error.stage) + ": " + errno_text(error.code);
    log_.write(log::LogLevel::error, "helper-failed", "a helper command could not be started: " + why,
               {{"error", std::string_view(why)}});
}

void HelperCommands::tell_failure(ProcessId id, Helper helper, Children::Outcome const& outcome) const {
    if (outcome.is_ok() || outcome.how == CommandRunner::How::cancelled) return;
    // A readiness probe fails until the process is ready, and is reported when the reason is another one. A failure of
    // a health check is reported when it matters.
    auto const& plan = table_[id.program].plan;
    log::LogLevel const level = waits_for_a_line(id, helper) ? log::LogLevel::error
                                : is_probe(helper)           ? log::LogLevel::debug
                                                             : log::LogLevel::warning;
    if (!log_.is_enabled(level)) return;
    std::string const why = outcome_text(outcome);
    auto const check = check_of(helper);
    bool const is_named = check && plan && *check < plan->settings->health.size();
    std::string name(helper_text(helper));
    if (is_named && !plan->settings->health[*check].name.empty()) name += " " + plan->settings->health[*check].name;
    log_.write(level, "helper-failed", name + " of " + report_writer_.who(id) + " has failed: " + why,
               {{"program", std::string_view(table_[id.program].name)},
                {"process", static_cast<std::int64_t>(id.number)},
                {"helper", helper_text(helper)},
                {"error", std::string_view(why)}});
}

}  // namespace triton::launcher
