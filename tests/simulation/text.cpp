#include "tests/simulation/text.h"

namespace triton::simulation {

namespace {

namespace event = launcher::event;
namespace action = launcher::action;

std::string of(launcher::ProgramId program) { return std::to_string(static_cast<std::uint32_t>(program)); }

template <class T>
std::string pid_of(T const& which) {
    return ", pid " + std::to_string(static_cast<pid_t>(which.pid));
}

std::string of(process::SpawnError const& error) {
    return "stage " + std::to_string(static_cast<int>(error.stage)) + " errno " + std::to_string(error.code);
}

std::string of(std::optional<Duration> restart_in) {
    return restart_in ? ", restart in " + text(*restart_in) : ", not wanted";
}

std::string of(event::ConfigurationAccepted const& e) {
    std::string all = "ConfigurationAccepted";
    if (!e.programs) return all;
    for (launcher::ProgramSpec const& spec : *e.programs) {
        all += (&spec == &e.programs->front() ? " " : "; ") + of(spec.id) + (spec.has_changed ? "" : " unchanged");
        if (std::string const policy = text(spec.policy); !policy.empty()) all += " (" + policy + ")";
    }
    return all;
}
std::string of(event::Spawned const& e) { return "Spawned " + text(e.id) + pid_of(e); }
std::string of(event::SpawnFailed const& e) { return "SpawnFailed " + text(e.id) + ", " + of(e.error); }
std::string of(event::Executed const& e) { return "Executed " + text(e.id); }
std::string of(event::Exited const& e) {
    return "Exited " + text(e.id) + ", status " + std::to_string(e.status) + (e.error ? ", " + of(*e.error) : "") +
           (e.was_oom_killed ? ", oom" : "") +
           (e.successor ? ", goes on as " + std::to_string(static_cast<int>(*e.successor)) : "") +
           (e.leaves_rest ? ", leaves others of its tree" : "");
}
std::string of(event::SignalFailed const& e) { return "SignalFailed " + text(e.id) + ", " + std::to_string(e.error); }
std::string of(event::TreeEmpty const& e) { return "TreeEmpty " + text(e.id); }
std::string of(event::MainFound const& e) { return "MainFound " + text(e.id) + pid_of(e); }
std::string of(event::Ready const& e) { return "Ready " + text(e.id); }
std::string of(event::WatchdogPing const& e) { return "WatchdogPing " + text(e.id); }
std::string of(event::ExtendTimeout const& e) { return "ExtendTimeout " + text(e.id) + ", by " + text(e.by); }
std::string of(event::HelperEnded const& e) {
    return "HelperEnded " + text(e.id) + " " + text(e.helper) + (e.ok ? ", ok" : ", not ok");
}
std::string of(event::ScheduleDue const& e) { return "ScheduleDue " + of(e.program); }
std::string of(event::StopAsked const& e) {
    return e.exit_code == 0 ? "StopAsked" : "StopAsked, exit code " + std::to_string(e.exit_code);
}
std::string of(event::SignalReceived const& e) { return "SignalReceived " + std::to_string(e.signo); }

char const* of(event::Verb verb) {
    switch (verb) {
        case event::Verb::start: return "start";
        case event::Verb::stop: return "stop";
        case event::Verb::restart: return "restart";
        case event::Verb::renew: return "renew";
        case event::Verb::reload: return "reload";
        case event::Verb::signal: return "signal";
    }
    return "?";
}
std::string of(event::Command const& e) {
    std::string const whom = e.number ? text(launcher::ProcessId{e.program, *e.number}) : "all of " + of(e.program);
    return std::string("Command ") + of(e.verb) + " " + whom +
           (e.verb == event::Verb::signal ? ", " + std::to_string(e.signo) : "");
}
std::string of(event::NoChildLeft const&) { return "NoChildLeft"; }
std::string of(event::TimePassed const&) { return "TimePassed"; }

char const* of(action::Why why) {
    switch (why) {
        case action::Why::stop: return "stop";
        case action::Why::kill: return "kill";
        case action::Why::forward: return "forward";
        case action::Why::reload: return "reload";
        case action::Why::watchdog: return "watchdog";
        case action::Why::asked: return "asked";
    }
    return "?";
}
char const* of(action::TimedOut what) {
    switch (what) {
        case action::TimedOut::start: return "start";
        case action::TimedOut::watchdog: return "watchdog";
        case action::TimedOut::run: return "run";
    }
    return "?";
}
char const* of(launcher::HealthAction action) {
    switch (action) {
        case launcher::HealthAction::restart: return "restart";
        case launcher::HealthAction::report: return "report";
        case launcher::HealthAction::exit: return "exit";
    }
    return "?";
}

std::string of(action::Spawn const& a) { return "Spawn " + text(a.id); }
std::string of(action::Signal const& a) {
    return "Signal " + text(a.id) + pid_of(a) + ", " + std::to_string(a.signo) + " (" + of(a.why) + ")" +
           (a.scope == launcher::StopScope::tree ? " tree" : "");
}
std::string of(action::SignalRest const& a) {
    return "SignalRest " + text(a.id) + ", " + std::to_string(a.signo) + " (" + of(a.why) + ")";
}
std::string of(action::EndTree const& a) { return "EndTree " + text(a.id); }
std::string of(action::RunHelper const& a) { return "RunHelper " + text(a.id) + " " + text(a.helper); }
std::string of(action::CancelHelper const& a) { return "CancelHelper " + text(a.id) + " " + text(a.helper); }
std::string of(action::Sweep const& a) { return "Sweep " + std::to_string(a.signo); }
std::string of(action::Finish const& a) { return "Finish " + std::to_string(a.exit_code); }
std::string of(action::ReportStarted const& a) { return "ReportStarted " + text(a.id) + pid_of(a); }
std::string of(action::ReportMain const& a) { return "ReportMain " + text(a.id) + pid_of(a); }
std::string of(action::ReportReady const& a) { return "ReportReady " + text(a.id) + ", after " + text(a.after); }
std::string of(action::ReportExited const& a) {
    return "ReportExited " + text(a.id) + pid_of(a) + ", status " + std::to_string(a.status) + ", run " + text(a.run) +
           of(a.restart_in) + (a.was_oom_killed ? ", oom" : "") + (a.is_expected ? ", expected" : "") +
           (a.is_permanent ? ", permanent" : "");
}
std::string of(action::ReportStartFailed const& a) {
    return "ReportStartFailed " + text(a.id) + ", " + of(a.error) + of(a.restart_in);
}
std::string of(action::ReportLeft const& a) { return "ReportLeft " + text(a.id) + pid_of(a); }
std::string of(action::ReportGaveUp const& a) {
    return "ReportGaveUp " + text(a.id) + ", starts " + std::to_string(a.starts);
}
std::string of(action::ReportTimedOut const& a) { return "ReportTimedOut " + text(a.id) + " " + of(a.what); }
std::string of(action::ReportUnhealthy const& a) {
    return "ReportUnhealthy " + text(a.id) + ", failures " + std::to_string(a.failures) + ", " + of(a.action) +
           (a.check > 0 ? ", check " + std::to_string(a.check) : "");
}
std::string of(action::ReportHealthy const& a) {
    return "ReportHealthy " + text(a.id) + (a.check > 0 ? ", check " + std::to_string(a.check) : "");
}
std::string of(action::ReportSkipped const& a) { return "ReportSkipped " + of(a.program); }
std::string of(action::ReportEnding const& a) {
    return "ReportEnding " + text(a.id) + ", exit code " + std::to_string(a.exit_code);
}

std::string of(bool value) { return value ? "yes" : "no"; }
std::string of(std::uint32_t value) { return std::to_string(value); }
std::string of(int value) { return std::to_string(value); }
std::string of(double value) {
    std::string digits = std::to_string(value);
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
    return digits;
}
std::string of(Duration value) { return text(value); }
std::string of(launcher::ProgramKind kind) {
    switch (kind) {
        case launcher::ProgramKind::service: return "service";
        case launcher::ProgramKind::one_shot: return "one_shot";
        case launcher::ProgramKind::scheduled: return "scheduled";
    }
    return "?";
}
std::string of(launcher::Restart restart) {
    switch (restart) {
        case launcher::Restart::always: return "always";
        case launcher::Restart::on_failure: return "on_failure";
        case launcher::Restart::never: return "never";
    }
    return "?";
}
std::string of(launcher::OnChange change) {
    switch (change) {
        case launcher::OnChange::keep: return "keep";
        case launcher::OnChange::restart: return "restart";
        case launcher::OnChange::signal: return "signal";
    }
    return "?";
}
std::string of(launcher::Readiness readiness) {
    switch (readiness) {
        case launcher::Readiness::started: return "started";
        case launcher::Readiness::notified: return "notified";
        case launcher::Readiness::probed: return "probed";
    }
    return "?";
}
std::string of(launcher::StopScope scope) { return scope == launcher::StopScope::tree ? "tree" : "process"; }
std::string of(std::vector<config::End> const& ends) {
    std::string all;
    for (config::End const end : ends)
        all += (all.empty() ? "" : " ") + std::to_string(end);
    return all;
}
std::string of(std::vector<launcher::ProgramId> const& ids) {
    std::string all;
    for (launcher::ProgramId const id : ids)
        all += (all.empty() ? "" : " ") + of(id);
    return all;
}
std::string of(std::vector<launcher::StopStep> const& steps) {
    std::string all;
    for (launcher::StopStep const& step : steps)
        all += (all.empty() ? "" : "+") + std::to_string(step.signal) + ":" + text(step.wait);
    return all;
}

std::string of(Rare<launcher::StartLimit> const& limit) {
    if (!limit) return "none";
    return std::to_string(limit->count) + " in " + text(limit->interval) +
           (limit->exit_code ? " else exit " + std::to_string(*limit->exit_code) : "");
}
std::string of(std::vector<launcher::Health> const& checks) {
    std::string all;
    for (launcher::Health const& health : checks) {
        all += (all.empty() ? "each " : "; each ") + text(health.interval) + " retries " +
               std::to_string(health.retries) + " from " + text(health.start_period) + " " + of(health.action);
    }
    return all;
}

}  // namespace

std::string text(launcher::Event const& event) {
    return std::visit([](auto const& which) { return of(which); }, event);
}

std::string text(launcher::Action const& action) {
    auto const of_one = [](auto const& which) { return of(which); };
    return std::visit([&](auto const& effect_or_report) { return std::visit(of_one, effect_or_report); }, action);
}

std::string text(launcher::ProcessId id) {
    std::string const number = std::to_string(static_cast<std::uint32_t>(id.number));
    return id.program == launcher::ProgramId{} ? number : of(id.program) + ":" + number;
}

std::string text(launcher::Helper helper) {
    switch (helper) {
        case launcher::Helper::pre_stop: return "pre_stop";
        case launcher::Helper::on_failure: return "on_failure";
        case launcher::Helper::readiness: return "readiness";
        case launcher::Helper::health: return "health";
        case launcher::Helper::on_success: return "on_success";
        case launcher::Helper::on_stop: return "on_stop";
        case launcher::Helper::health_2: return "health_2";
        case launcher::Helper::health_3: return "health_3";
        case launcher::Helper::health_4: return "health_4";
        case launcher::Helper::health_5: return "health_5";
        case launcher::Helper::health_6: return "health_6";
        case launcher::Helper::health_7: return "health_7";
        case launcher::Helper::health_8: return "health_8";
    }
    return "?";
}

std::string text(launcher::ProcessState state) {
    using enum launcher::ProcessState;
    switch (state) {
        case down: return "down";
        case waiting: return "waiting";
        case starting: return "starting";
        case executing: return "executing";
        case activating: return "activating";
        case up: return "up";
        case draining: return "draining";
        case pre_stop: return "pre_stop";
        case stopping: return "stopping";
        case killing: return "killing";
        case backoff: return "backoff";
        case done: return "done";
        case failed: return "failed";
        case held: return "held";
        case undoing: return "undoing";
        case clearing: return "clearing";
    }
    return "?";
}

std::string text(launcher::SupervisorPhase phase) {
    using enum launcher::SupervisorPhase;
    switch (phase) {
        case running: return "running";
        case stopping: return "stopping";
        case sweeping: return "sweeping";
        case finished: return "finished";
    }
    return "?";
}

std::string text(Duration duration) {
    bool const negative = duration < Duration::zero();
    auto const count = static_cast<std::uint64_t>(negative ? -duration.count() : duration.count());
    std::string fraction = std::to_string(count % 1'000'000'000);
    fraction.insert(0, 9 - fraction.size(), '0');
    fraction.erase(fraction.find_last_not_of('0') + 1);
    std::string const whole = (negative ? "-" : "") + std::to_string(count / 1'000'000'000);
    return fraction.empty() ? whole + "s" : whole + "." + fraction + "s";
}

std::string text(TimePoint time) { return time == TimePoint::max() ? "never" : text(time.time_since_epoch()); }

std::string text(launcher::ProgramPolicy const& policy) {
    launcher::ProgramPolicy const plain;
    std::string all;
    auto const say = [&](char const* name, auto const& value, auto const& otherwise) {
        if (value != otherwise) all += (all.empty() ? "" : ", ") + std::string(name) + " " + of(value);
    };
    say("count", policy.count, plain.count);
    say("kind", policy.kind, plain.kind);
    say("auto_start", policy.auto_start, plain.auto_start);
    say("restart", policy.restart, plain.restart);
    say("run_timeout", policy.run_timeout, plain.run_timeout);
    say("makes_up", policy.makes_up, plain.makes_up);
    say("success_ends", policy.success_ends, plain.success_ends);
    say("permanent_ends", policy.permanent_ends, plain.permanent_ends);
    say("delay", policy.backoff.delay, plain.backoff.delay);
    say("max_delay", policy.backoff.max_delay, plain.backoff.max_delay);
    say("factor", policy.backoff.factor, plain.backoff.factor);
    say("jitter", policy.backoff.jitter, plain.backoff.jitter);
    say("reset_after", policy.backoff.reset_after, plain.backoff.reset_after);
    say("minimum_run", policy.backoff.minimum_run, plain.backoff.minimum_run);
    say("always_waits", policy.backoff.always_waits, plain.backoff.always_waits);
    say("start_limit", policy.start_limit, plain.start_limit);
    say("critical", policy.critical, plain.critical);
    say("is_main", policy.is_main, plain.is_main);
    say("auxiliary", policy.auxiliary, plain.auxiliary);
    say("stop_signal", policy.stop_signal, plain.stop_signal);
    say("stop_timeout", policy.stop_timeout, plain.stop_timeout);
    say("stop_steps", policy.stop_steps, plain.stop_steps);
    say("drain", policy.drain, plain.drain);
    say("has_pre_stop", policy.has_pre_stop, plain.has_pre_stop);
    say("pre_stop_timeout", policy.pre_stop_timeout, plain.pre_stop_timeout);
    say("stop_scope", policy.stop_scope, plain.stop_scope);
    say("forks", policy.forks, plain.forks);
    say("kills_tree", policy.kills_tree, plain.kills_tree);
    say("on_change", policy.on_change, plain.on_change);
    say("change_signal", policy.change_signal, plain.change_signal);
    say("has_on_failure", policy.has_on_failure, plain.has_on_failure);
    say("has_on_success", policy.has_on_success, plain.has_on_success);
    say("has_on_stop", policy.has_on_stop, plain.has_on_stop);
    say("on_stop_timeout", policy.on_stop_timeout, plain.on_stop_timeout);
    say("after", policy.after, plain.after);
    say("requires", policy.requires_, plain.requires_);
    say("binds_to", policy.binds_to, plain.binds_to);
    say("readiness", policy.readiness, plain.readiness);
    say("probe_interval", policy.probe_interval, plain.probe_interval);
    say("start_timeout", policy.start_timeout, plain.start_timeout);
    say("watchdog", policy.watchdog, plain.watchdog);
    say("health", policy.checks, plain.checks);
    say("sequential", policy.is_sequential, plain.is_sequential);
    say("max_unavailable", policy.max_unavailable, plain.max_unavailable);
    say("told_of_files", policy.is_told_of_files, plain.is_told_of_files);
    return all;
}

}  // namespace triton::simulation
