#include "launcher/rooms/report.h"

#include <cerrno>
#include <cstdlib>
#include <vector>

#include <sys/wait.h>

#include "lib/base/duration.h"
#include "lib/base/result.h"
#include "lib/base/signal_text.h"
#include "lib/json/text.h"
#include "lib/process/spawn.h"

namespace triton::launcher {

namespace {

std::int64_t as_field(ProcessNumber number) { return static_cast<std::int64_t>(number); }
std::int64_t as_field(Pid pid) { return static_cast<std::int64_t>(pid); }

std::string restart_text(std::optional<Duration> restart_in) {
    if (!restart_in) return "";
    return *restart_in == Duration::zero() ? "; starting it again"
                                           : "; starting it again in " + short_duration(*restart_in);
}

std::string_view text(HealthAction action) {
    switch (action) {
        case HealthAction::restart: return "restart";
        case HealthAction::report: return "report";
        case HealthAction::exit: return "exit";
    }
    std::unreachable();
}

/// None: a program that forks has ended while nobody knew the process that goes on.
std::string with_pid(std::string who, Pid pid) {
    if (pid == Pid{}) return who;
    return std::move(who.append(" (pid ").append(std::to_string(as_field(pid))).append(")"));
}

}  // namespace

std::string short_duration(Duration duration) {
    auto const rounded = duration < std::chrono::seconds(10)
                             ? Duration(std::chrono::round<milliseconds>(duration))
                             : Duration(std::chrono::round<std::chrono::seconds>(duration));
    return format_duration(rounded);
}

std::string signal_error_text(int error) {
    return errno_text(error) + (error == EPERM ? ": it has another user, and the launcher lacks CAP_KILL" : "");
}

std::string count_text(std::uint32_t count) { return std::to_string(count) + (count == 1 ? " process" : " processes"); }

std::string ReportWriter::who(ProcessId id) const {
    ProgramName const program = names_(id.program);
    std::string const number = std::to_string(as_field(id.number));
    if (program.name.empty()) return "process " + number;
    std::string name(program.name);
    return program.has_numbers ? name.append(":").append(number) : name;
}

/// Writes a record. One about a process begins with its program (if that has a name) and its number.
void ReportWriter::write(log::LogLevel level, std::string_view event, std::string const& message, ProcessId id,
                         std::span<log::LogField const> fields) {
    std::vector<log::LogField> all;
    all.reserve(fields.size() + 2);
    std::string_view const name = names_(id.program).name;
    if (!name.empty()) all.push_back({"program", name});
    all.push_back({"process", as_field(id.number)});
    all.insert(all.end(), fields.begin(), fields.end());
    log_.write(level, event, message, all);
}

void ReportWriter::on(action::ReportExited const& exited) {
    bool const by_signal = WIFSIGNALED(exited.status);
    int const code = by_signal ? WTERMSIG(exited.status) : WEXITSTATUS(exited.status);
    std::string how = by_signal ? "by " + signal_text(code) : "with exit code " + std::to_string(code);
    if (exited.was_oom_killed) how += ", out of memory,";
    if (exited.is_expected) how += ", a success,";
    if (exited.is_permanent) how += ", a permanent failure,";
    std::string const message = with_pid(who(exited.id), exited.pid) + " ended " + how + " after " +
                                short_duration(exited.run) + restart_text(exited.restart_in);
    std::vector<log::LogField> fields;
    if (exited.pid != Pid{}) fields.push_back({"pid", as_field(exited.pid)});
    if (exited.was_oom_killed) {
        write(log::LogLevel::error, "process-oom-killed",
              with_pid(who(exited.id), exited.pid) + ": its control group ran out of memory", exited.id, fields);
    }
    fields.insert(fields.end(),
                  {{by_signal ? "signal" : "exit_code", std::int64_t{code}}, {"run_seconds", exited.run}});
    if (exited.restart_in) {
        fields.insert(fields.end(),
                      {{"restart_in_seconds", *exited.restart_in}, {"failures", std::int64_t{exited.failures}}});
    }
    bool const is_fine = exited.status == 0 || exited.was_asked_for || exited.is_expected;
    log::LogLevel const level = is_fine             ? log::LogLevel::info
                                : exited.restart_in ? log::LogLevel::warning
                                                    : log::LogLevel::error;
    write(level, "process-exited", message, exited.id, fields);
}

void ReportWriter::on(action::ReportStartFailed const& failed) {
    std::string const stage = process::stage_text(failed.error.stage);
    std::string const what = process::stage_text(failed.error.stage, names_(failed.id.program).plan, failed.id.number);
    std::string const error = what + ": " + errno_text(failed.error.code);
    std::string const message = "cannot start " + who(failed.id) + ": " + error + restart_text(failed.restart_in);
    log::LogField const where{"stage", std::string_view(stage)};
    log::LogField const code{"errno", std::int64_t{failed.error.code}};
    log::LogField const why{"error", std::string_view(error)};
    if (failed.restart_in) {
        write(log::LogLevel::error, "process-start-failed", message, failed.id,
              {where,
               code,
               why,
               {"restart_in_seconds", *failed.restart_in},
               {"failures", std::int64_t{failed.failures}}});
    } else {
        write(log::LogLevel::error, "process-start-failed", message, failed.id, {where, code, why});
    }
}

void ReportWriter::tell(action::Signal const& signal, bool is_stopping) {
    log::LogField const pid{"pid", as_field(signal.pid)};
    log::LogField const signo{"signal", std::int64_t{signal.signo}};
    std::string const whom = with_pid(who(signal.id), signal.pid);
    switch (signal.why) {
        case action::Why::forward: return;
        case action::Why::stop:
            // In a stop of everything, one line says it for all.
            return write(is_stopping ? log::LogLevel::debug : log::LogLevel::info, "process-stopping",
                         "stopping " + whom, signal.id, {pid, signo});
        case action::Why::kill:
            return write(log::LogLevel::warning, "process-killed", whom + " gets SIGKILL", signal.id, {pid});
        case action::Why::reload:
            return write(log::LogLevel::info, "process-signalled",
                         signal_text(signal.signo) + " to " + whom + ": its configuration has changed", signal.id,
                         {pid, signo});
        case action::Why::asked:
            return write(log::LogLevel::info, "process-signalled", signal_text(signal.signo) + " to " + whom, signal.id,
                         {pid, signo});
        case action::Why::watchdog: return;  // its timeout has been reported
    }
}

void ReportWriter::tell(RefusedSignal const& refused, bool /*is_stopping*/) {
    action::Signal const& signal = refused.signal;
    std::string const error = signal_error_text(refused.error);
    write(log::LogLevel::error, "process-signal-failed",
          "cannot send " + signal_text(signal.signo) + " to " + with_pid(who(signal.id), signal.pid) + ": " + error,
          signal.id,
          {{"pid", as_field(signal.pid)},
           {"signal", std::int64_t{signal.signo}},
           {"errno", std::int64_t{refused.error}},
           {"error", std::string_view(error)}});
}

void ReportWriter::tell(RefusedRest const& rest, bool /*is_stopping*/) {
    auto const& refused = rest.refused;
    std::string const error = signal_error_text(refused.error);
    std::string const others = refused.count > 1 ? " and " + std::to_string(refused.count - 1) + " more" : "";
    write(log::LogLevel::error, "process-signal-failed",
          "cannot send " + signal_text(rest.signal.signo) + " to pid " + std::to_string(refused.pid) + others +
              ", left behind by " + who(rest.signal.id) + ": " + error,
          rest.signal.id,
          {{"pid", std::int64_t{refused.pid}},
           {"signal", std::int64_t{rest.signal.signo}},
           {"errno", std::int64_t{refused.error}},
           {"error", std::string_view(error)}});
}

void ReportWriter::tell(action::SignalRest const& signal, bool is_stopping) {
    log::LogField const signo{"signal", std::int64_t{signal.signo}};
    switch (signal.why) {
        case action::Why::stop:
            return write(is_stopping ? log::LogLevel::debug : log::LogLevel::info, "process-stopping",
                         who(signal.id) + " has ended: stopping what it has left behind", signal.id, {signo});
        case action::Why::kill:
            return write(log::LogLevel::warning, "process-killed",
                         "what " + who(signal.id) + " has left behind gets SIGKILL", signal.id, {signo});
        case action::Why::forward:
        case action::Why::reload:
        case action::Why::asked:
        case action::Why::watchdog: return;
    }
}

void ReportWriter::on(action::ReportStarted const& started) {
    write(log::LogLevel::info, "process-started",
          who(started.id) + " started, pid " + std::to_string(as_field(started.pid)), started.id,
          {{"pid", as_field(started.pid)}});
}

void ReportWriter::on(action::ReportMain const& main) {
    write(log::LogLevel::info, "process-main",
          who(main.id) + " goes on in the background, pid " + std::to_string(as_field(main.pid)), main.id,
          {{"pid", as_field(main.pid)}});
}

void ReportWriter::on(action::ReportReady const& ready) {
    std::string message = who(ready.id) + " is ready after " + short_duration(ready.after);
    std::uint32_t const failures = why_not_ready_(ready.id).count;
    if (failures == 0)
        return write(log::LogLevel::info, "process-ready", message, ready.id, {{"after_seconds", ready.after}});
    message += " and " + std::to_string(failures) + (failures == 1 ? " failed probe" : " failed probes");
    write(log::LogLevel::info, "process-ready", message, ready.id,
          {{"after_seconds", ready.after}, {"failures", std::int64_t{failures}}});
}

void ReportWriter::on(action::ReportLeft const& left) {
    write(log::LogLevel::error, "process-left",
          with_pid(who(left.id), left.pid) + " did not end by SIGKILL within the stop limit", left.id,
          {{"pid", as_field(left.pid)}});
}

void ReportWriter::on(action::ReportGaveUp const& gave_up) {
    write(log::LogLevel::error, "process-gave-up",
          who(gave_up.id) + " is given up: " + "started " + std::to_string(gave_up.starts) +
              (gave_up.starts == 1 ? " time" : " times") + " in too short a time",
          gave_up.id, {{"starts", std::int64_t{gave_up.starts}}});
}

void ReportWriter::on(action::ReportTimedOut const& late) {
    struct Words {
        std::string_view field;
        char const* message;
    };
    auto const words = [&]() -> Words {
        switch (late.what) {
            case action::TimedOut::start: return {"start", " was not ready in time: killed"};
            case action::TimedOut::run: return {"run", " has taken too long: stopped"};
            case action::TimedOut::watchdog: return {"watchdog", " missed its watchdog: aborted"};
        }
        std::unreachable();
    }();
    NetworkProbe const* const readiness = names_(late.id.program).readiness;
    if (late.what == action::TimedOut::start && readiness && readiness->kind == config::ProbeKind::log) {
        std::string const pattern = readiness->target.arguments(late.id.number).front();
        return write(log::LogLevel::error, "process-timed-out",
                     who(late.id) + words.message + "; no line has matched " + json::quoted(pattern, pattern.size()),
                     late.id, {{"what", words.field}, {"pattern", std::string_view(pattern)}});
    }
    ReadinessFailures const failures =
        late.what == action::TimedOut::start ? why_not_ready_(late.id) : ReadinessFailures{};
    if (failures.why.empty())
        return write(log::LogLevel::error, "process-timed-out", who(late.id) + words.message, late.id,
                     {{"what", words.field}});
    std::string const probes =
        failures.count > 1 ? "the last of " + std::to_string(failures.count) + " probes" : std::string("its probe");
    write(log::LogLevel::error, "process-timed-out",
          who(late.id) + words.message + "; " + probes + " has failed: " + failures.why, late.id,
          {{"what", words.field}, {"error", std::string_view(failures.why)}});
}

/// The name of a check; empty when it is the only one, or when its configuration is gone.
std::string_view ReportWriter::name_of_check(ProcessId id, std::size_t check) const {
    auto const checks = names_(id.program).checks;
    return check < checks.size() ? std::string_view(checks[check].name) : std::string_view();
}

void ReportWriter::on(action::ReportUnhealthy const& unhealthy) {
    std::string const check(name_of_check(unhealthy.id, unhealthy.check));
    std::string const probes = " probes " + (check.empty() ? "" : "of " + check + " ") + "in a row have failed";
    std::string const count = std::to_string(unhealthy.failures);
    std::string const why(why_(unhealthy.id, unhealthy.check));
    std::string const message =
        who(unhealthy.id) + " is unhealthy: " + count + probes + (why.empty() ? "" : ", the last one: " + why);
    log::LogField const failures{"failures", std::int64_t{unhealthy.failures}};
    log::LogField const action{"action", text(unhealthy.action)};
    log::LogField const error{"error", std::string_view(why)};
    if (check.empty())
        return write(log::LogLevel::error, "process-unhealthy", message, unhealthy.id, {failures, action, error});
    write(log::LogLevel::error, "process-unhealthy", message, unhealthy.id,
          {failures, action, error, {"check", std::string_view(check)}});
}

void ReportWriter::on(action::ReportHealthy const& healthy) {
    std::string const check(name_of_check(healthy.id, healthy.check));
    std::string const message = who(healthy.id) + " is healthy again";
    if (check.empty()) return write(log::LogLevel::info, "process-healthy", message, healthy.id, {});
    write(log::LogLevel::info, "process-healthy", message + " (" + check + ")", healthy.id,
          {{"check", std::string_view(check)}});
}

void ReportWriter::on(action::ReportSkipped const& skipped) {
    std::string_view const name = names_(skipped.program).name;
    log_.write(log::LogLevel::warning, "schedule-skipped",
               "run of " + std::string(name) + " skipped: the previous run has not ended", {{"program", name}});
}

void ReportWriter::on(action::ReportEnding const& ending) {
    write(ending.exit_code == 0 ? log::LogLevel::info : log::LogLevel::error, "container-ending",
          "the container ends with exit code " + std::to_string(ending.exit_code) + ", because of " + who(ending.id),
          ending.id, {{"exit_code", std::int64_t{ending.exit_code}}});
}

void ReportWriter::tell(Report const& report, bool) {
    std::visit([this](auto const& which) { on(which); }, report);
}

void ReportWriter::tell(Told const& told, bool is_stopping) {
    std::visit([&](auto const& which) { tell(which, is_stopping); }, told);
}

}  // namespace triton::launcher
