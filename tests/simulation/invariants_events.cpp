// What is owed for an event, by the documented rules.

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <utility>

#include <sys/wait.h>

#include "tests/simulation/action.h"
#include "tests/simulation/invariants.h"
#include "tests/simulation/text.h"

namespace triton::simulation {

namespace {

using launcher::Fault;
using launcher::HealthAction;
using launcher::OnChange;
using launcher::ProcessNumber;
using launcher::ProgramId;
using launcher::ProgramKind;
using launcher::ProgramPolicy;
using launcher::Readiness;
using launcher::Restart;
using launcher::RestartPolicy;
using launcher::Run;
namespace event = launcher::event;
namespace action = launcher::action;

/// A failed clone is known at once: trying again at once would leave no time for anything else, a stop for example.
constexpr Duration shortest_retry = std::chrono::milliseconds(1);

constexpr std::size_t place(Helper helper) { return static_cast<std::size_t>(helper); }

int exit_code_of(int status, std::optional<process::SpawnError> const& error) {
    if (error) return error->code == ENOENT ? 127 : 126;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Known to be ready only when something says so.
bool says_when_ready(ProgramPolicy const& policy) {
    return policy.kind == ProgramKind::one_shot || policy.readiness != Readiness::started || policy.forks;
}

bool is_probed(ProgramPolicy const& policy) {
    return policy.kind != ProgramKind::one_shot && policy.readiness == Readiness::probed;
}

bool is_short(RestartPolicy const& policy, Run run) {
    return run.length < policy.reset_after && !(run.is_clean && run.length >= policy.minimum_run);
}

}  // namespace

// Configurations.

void Invariants::apply(event::ConfigurationAccepted const& event) {
    if (is_stopping()) return;
    for (launcher::ProgramSpec const& spec : *event.programs) {
        std::size_t const at = static_cast<std::size_t>(spec.id);
        if (programs_.size() <= at) programs_.resize(at + 1);
    }
    std::vector<News> news(programs_.size());
    std::vector<bool> was_known(programs_.size());
    std::vector<bool> was_configured;
    for (Program& program : programs_)
        was_configured.push_back(std::exchange(program.is_configured, false));
    for (launcher::ProgramSpec const& spec : *event.programs) {
        Program& program = programs_[static_cast<std::size_t>(spec.id)];
        bool const is_other_kind = !program.records.empty() && program.policy.kind != spec.policy.kind;
        bool const is_new = !was_configured[static_cast<std::size_t>(spec.id)];
        launcher::ProgramPolicy const& was = program.policy;
        launcher::ProgramPolicy const& is = spec.policy;
        bool const has_same_times = was.run_timeout == is.run_timeout && was.start_timeout == is.start_timeout &&
                                    was.watchdog == is.watchdog && was.backoff == is.backoff;
        bool const has_same_ends = was.restart == is.restart && was.success_ends == is.success_ends &&
                                   was.permanent_ends == is.permanent_ends && was.start_limit == is.start_limit;
        bool const is_watched_alike = was.readiness == is.readiness && was.checks == is.checks && was.forks == is.forks;
        bool const has_other_limits =
            !program.records.empty() && !(has_same_times && has_same_ends && is_watched_alike);
        news[static_cast<std::size_t>(spec.id)] = {spec.has_changed, is_new, is_other_kind, has_other_limits};
        bool const had_limit = program.policy.start_limit.has_value();
        bool const is_other_limit = had_limit != spec.policy.start_limit.has_value() ||
                                    (had_limit && program.policy.start_limit->count != spec.policy.start_limit->count);
        for (Record& record : program.records)
            record.was_unwell = is_unwell(program.policy, record);
        bool const brings_watchdog =
            program.policy.watchdog == Duration::zero() && spec.policy.watchdog > Duration::zero();
        for (Record& record : program.records)
            record.has_no_watchdog = record.has_no_watchdog || brings_watchdog;
        // Nor do checks belong to others than those that there are.
        if (!program.records.empty() && program.policy.checks.size() != spec.policy.checks.size()) {
            for (Record& record : program.records)
                record.checks = {};
        }
        // Failures are counted towards one number, for one action.
        for (std::size_t check = 0; check < spec.policy.checks.size() && !program.records.empty(); ++check) {
            launcher::Health const& health = spec.policy.checks[check];
            if (check >= program.policy.checks.size()) break;
            launcher::Health const& before = program.policy.checks[check];
            if (health.retries == before.retries && health.action == before.action) continue;
            // Who was judged ill stays so until a check says otherwise.
            bool const stay_ill = before.action == HealthAction::report && health.action == HealthAction::report;
            for (Record& record : program.records) {
                std::uint32_t& bad = record.checks[check].bad;
                bad = stay_ill && bad >= before.retries ? health.retries : 0;
            }
        }
        program.policy = spec.policy;
        program.is_configured = true;
        if (!was_configured[static_cast<std::size_t>(spec.id)] && !spec.policy.auto_start) program.is_held = true;
        if (program.records.size() < spec.policy.count) program.records.resize(spec.policy.count);
        // A limit of another size counts from here.
        for (Record& record : program.records) {
            if (is_other_limit) record.starts.clear();
        }
    }
    for (Program& program : programs_) {
        if (!program.is_configured) program.is_held = false;
        bool const may_owe = program.policy.makes_up && program.policy.kind == ProgramKind::scheduled;
        if (!program.is_configured || !may_owe) program.is_run_owed = false;
    }
    for_each([&](At at) {
        News const& that = news[static_cast<std::size_t>(at.id.program)];
        reconfigure(at, that);
    });
}

void Invariants::reconfigure(At at, News const& news) {
    auto const [has_changed, is_new, is_other_kind, has_other_limits] = news;
    Record& record = at.record;
    if (!is_wanted(at)) record.is_to_be_held = false;  // whoever comes back is not the one of the command
    bool const is_for_later = is_other_kind && at.policy().kind == ProgramKind::scheduled;
    switch (record.state) {
        case State::down:
            if (!is_wanted(at)) return;
            if (at.program.is_held) return enter(at, State::held);
            if (at.policy().kind != ProgramKind::scheduled) want_again(at);
            return;
        case State::backoff: return is_wanted(at) && !is_for_later ? want_again(at) : forget(at);
        case State::waiting:
            if (!is_wanted(at) || is_for_later) forget(at);
            return;
        case State::held:
            if (!is_wanted(at)) forget(at);
            return;
        case State::done:
        case State::failed:
            if (!is_wanted(at)) return has_to_be_undone(at.policy(), record) ? void() : forget(at);  // see follow()
            if (at.policy().kind == ProgramKind::scheduled || at.program.is_held) return;
            if (record.state == State::failed) {
                // It may have failed by what is different now.
                if (has_changed || is_other_kind || has_other_limits) want_again(at);
                return;
            }
            // What is done is not done again for a change that its program does not want to see at once.
            if (is_other_kind || (has_changed && (at.policy().on_change == OnChange::restart || is_new)))
                want_again(at);
            return;
        case State::executing:
        case State::activating:
        case State::up: return is_wanted(at) ? reconfigure_running(at, has_changed) : stop(at);
        case State::starting:
            if (is_wanted(at) && has_changed) record.is_stale = true;
            return;
        case State::draining:
        case State::pre_stop:
        case State::stopping:
        case State::killing:
            // What has gone bad is not counted against what is different now.
            if (is_wanted(at) && at.policy().kind != ProgramKind::scheduled && (has_changed || has_other_limits))
                record.went_bad = false;
            return;
        case State::clearing:
            if (is_wanted(at) && (has_changed || is_other_kind)) record.is_stale = true;
            if (is_wanted(at) && at.policy().kind != ProgramKind::scheduled && (has_changed || has_other_limits))
                record.went_bad = false;
            return;
        case State::undoing: return;
    }
}

void Invariants::reconfigure_running(At at, bool has_changed) {
    if (has_changed) {
        switch (at.policy().on_change) {
            case OnChange::keep: break;
            case OnChange::restart:
                // Of two, the one that is ill anyway, so that one serves: whatever the new checks may say of it.
                stop_or_roll(at, at.record.state != State::up || at.record.was_unwell);
                if (!at.record.is_to_roll) return;
                break;
            case OnChange::signal:
                if (at.record.state == State::executing || at.record.state == State::activating) {
                    at.record.is_stale = true;
                } else {
                    owe_signal(at, at.policy().change_signal, action::Why::reload);
                }
        }
    }
    watch_anew(at);
}

/// How a process is watched is a matter of its program, not of what was started: it takes effect at once, and deadlines
/// that are there stay. A watchdog alone is fed by who knows of it.
void Invariants::watch_anew(At at) {
    Record& record = at.record;
    ProgramPolicy const& policy = at.policy();
    bool const is_up = record.state == State::up;
    bool const has_executed = record.state != State::executing;
    record.run_due = policy.run_timeout > Duration::zero() ? record.started + policy.run_timeout : never;
    if (record.is_awaited && !policy.forks) {
        record.is_to_restart = true;
        return stop(at);
    }
    if (!is_up && has_executed && !says_when_ready(policy)) {
        cancel_helper(at, Helper::readiness);
        return come_up(at);
    }
    Duration const limit = is_up ? watchdog(at) : policy.start_timeout;
    if (limit == Duration::zero()) {
        record.due = never;
    } else if (record.due == never) {
        record.due = in(limit);
    }
    if (!has_executed) return;
    if (!is_up && (!is_probed(policy) || awaits_main(at))) {
        cancel_helper(at, Helper::readiness);
        record.probe = never;
    } else if (!is_up && record.probe == never && record.helpers[place(Helper::readiness)] == Running::no) {
        record.probe = in(policy.probe_interval);
    }
    for (std::size_t check = 0; is_up && check < launcher::most_checks; ++check) {
        Helper const helper = launcher::helper_of_check(check);
        if (check >= policy.checks.size()) {
            cancel_helper(at, helper);
        } else if (record.checks[check].probe == never && record.helpers[place(helper)] == Running::no) {
            record.checks[check].probe = in(policy.checks[check].interval);
        }
    }
}

void Invariants::cancel_probes(At at) {
    cancel_helper(at, Helper::readiness);
    for (std::size_t check = 0; check < launcher::most_checks; ++check)
        cancel_helper(at, launcher::helper_of_check(check));
}

/// A start that the policy has no say in: what was before does not count.
void Invariants::want_again(At at) {
    at.record.failures = 0;
    at.record.was_short = false;
    at.record.starts.clear();
    enter(at, State::waiting);
}

/// Not wanted any more. A helper that is under way stays known until it has ended.
void Invariants::forget(At at) {
    auto const helpers = at.record.helpers;
    at.record = Record{};
    at.record.helpers = helpers;
}

// Starts.

void Invariants::apply(event::Spawned const& event) {
    At const that = at(event.id);
    Record& record = that.record;
    std::erase(pending_, event.id);
    record.pid = event.pid;
    record.started = now_;
    for (Check& check : record.checks)
        check.bad = 0;
    record.is_untold = true;
    record.is_main_known = record.said_ready = false;
    record.signal_error = 0;
    enter(that, State::executing);
    if (is_stopping()) {
        if (stops_asked_ > 1) return kill(that);
        if (that.program.is_turn) stop(that);
        return;
    }
    if (record.is_stale && that.policy().on_change == OnChange::restart) record.is_to_restart = true;
    if (!is_wanted(that) || record.is_to_be_held || record.is_to_restart) return stop(that);
    if (that.policy().start_timeout > Duration::zero()) record.due = in(that.policy().start_timeout);
    if (that.policy().run_timeout > Duration::zero()) record.run_due = in(that.policy().run_timeout);
}

/// Only now it has started. What was told to stop meanwhile is not asked any more.
void Invariants::apply(event::Executed const& event) {
    At const that = at(event.id);
    that.record.state == State::executing ? executed(that) : tell_start(that);
}

void Invariants::tell_start(At at) {
    if (std::exchange(at.record.is_untold, false)) owe(action::ReportStarted{at.id, *at.record.pid});
}

void Invariants::executed(At at) {
    tell_start(at);
    if (is_stopping()) return enter(at, State::activating);
    says_when_ready(at.policy()) ? activate(at) : come_up(at);
}

void Invariants::activate(At at) {
    TimePoint const due = at.record.due;  // the start goes on
    enter(at, State::activating);
    at.record.due = due;
    if (is_probed(at.policy()) && !awaits_main(at)) probe(at);
}

void Invariants::come_up(At at) {
    enter(at, State::up);
    if (watchdog(at) > Duration::zero()) at.record.due = in(watchdog(at));
    for (std::size_t check = 0; check < at.policy().checks.size(); ++check)
        at.record.checks[check].probe = in(at.policy().checks[check].interval);
    bool const is_told = at.policy().on_change == OnChange::signal || at.policy().is_told_of_files;
    if (std::exchange(at.record.is_stale, false) && is_told)
        owe_signal(at, at.policy().change_signal, action::Why::reload);
}

void Invariants::apply(event::Ready const& event) {
    auto const that = find(event.id);
    if (!that || is_stopping()) return;
    if (that->record.state == State::executing) executed(*that);
    if (that->record.state != State::activating) return;
    if (awaits_main(*that)) that->record.said_ready = true;
    if (awaits_main(*that)) return;
    if (that->policy().kind == ProgramKind::one_shot || that->policy().readiness != Readiness::notified) return;
    owe(action::ReportReady{event.id, now_ - that->record.started});
    come_up(*that);
}

void Invariants::apply(event::WatchdogPing const& event) {
    auto const that = find(event.id);
    if (that && that->record.state == State::up && that->record.due != never)
        that->record.due = in(that->policy().watchdog);
}

Duration Invariants::watchdog(At at) { return at.record.has_no_watchdog ? Duration::zero() : at.policy().watchdog; }

void Invariants::apply(event::ExtendTimeout const& event) {
    auto const that = find(event.id);
    if (!that) return;
    State const state = that->record.state;
    bool const is_start = (state == State::executing || state == State::activating) && that->record.due != never;
    if (!is_start && that->record.state != State::stopping && that->record.state != State::clearing) return;
    that->record.due = std::max(that->record.due, in(event.by));
    if (is_stopping()) that->record.due = std::min(that->record.due, latest_kill());
}

// Ends.

void Invariants::apply(event::SpawnFailed const& event) {
    At const that = at(event.id);
    std::erase(pending_, event.id);
    that.record.exit_code = exit_code_of(0, event.error);
    that.record.last_end = now_;
    that.record.last_error = event.error;
    Next const next = what_now(that, State::starting, Run{Duration::zero(), false}, true);
    owe(action::ReportStartFailed{event.id, event.error, next.restart_in, next.failures});
    run_what_is_owed(that);
}

void Invariants::apply(event::Exited const& event) {
    At const that = at(event.id);
    Record& record = that.record;
    State before = record.state;
    if (goes_on(that, event)) {
        tell_start(that);
        if (event.successor) return go_on_as(that, *event.successor);
        TimePoint const due = record.due;  // the start goes on
        record.pid.reset();
        record.is_awaited = true;
        enter(that, State::activating);
        record.due = due;
        return;
    }
    record.is_awaited = false;
    if (event.error) {
        record.is_untold = false;
    } else {
        tell_start(that);
        if (before == State::executing) before = says_when_ready(that.policy()) ? State::activating : State::up;
    }
    record.last_pid = std::exchange(record.pid, std::nullopt).value_or(Pid{});
    record.last_error = event.error;
    cancel_helper(that, Helper::pre_stop);
    cancel_probes(that);
    record.last_status = event.status;
    record.last_end = now_;
    record.exit_code = exit_code_of(event.status, event.error);
    record.was_oom_killed = event.was_oom_killed;
    if (!event.leaves_rest) return ended(that, before);
    if (!is_stopping() || now_ < latest_kill()) return give_time_to_rest(that, before);
    owe(action::SignalRest{event.id, SIGKILL, action::Why::kill});
    ended(that, before);
}

/// The rest of a tree has the time that is left of the process's stop, or that of a stop of its own.
void Invariants::give_time_to_rest(At at, State before) {
    Record& record = at.record;
    TimePoint const due = record.due;
    record.has_rest = true;
    record.ended_in = before;
    record.is_stale = false;
    enter(at, State::clearing);
    if (before == State::stopping && record.step != aborted) {
        record.due = due;
        return;
    }
    record.step = 0;
    send_step(at);
}

void Invariants::apply(event::SignalFailed const& event) {
    auto const that = find(event.id);
    if (that && is_there(that->record) && !that->record.has_rest) that->record.signal_error = event.error;
}

void Invariants::apply(event::TreeEmpty const& event) {
    auto const that = find(event.id);
    if (that && that->record.has_rest) ended(*that, that->record.ended_in);
}

void Invariants::ended(At that, State before) {
    Record& record = that.record;
    record.has_rest = false;
    int const status = *record.last_status;
    auto const error = record.last_error;
    bool const is_too_early = before == State::activating && that.policy().kind == ProgramKind::service;
    auto const is_one_of = [&](std::vector<config::End> const& ends) {
        int const end = WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
        return !error && std::ranges::find(ends, end) != ends.end();
    };
    bool const is_expected = is_one_of(that.policy().success_ends);
    bool const is_permanent = is_one_of(that.policy().permanent_ends);
    bool const is_success = is_expected || (status == 0 && !error);
    if (is_stopping() && that.policy().is_main && exit_code_ == 0 && !is_success) exit_code_ = record.exit_code;
    Run const run{record.last_end - record.started, is_success && !record.went_bad && !is_too_early, is_permanent};
    bool const is_its_own_end = before == State::executing || before == State::activating || before == State::up;
    bool const was_asked_for = !record.went_bad && !is_its_own_end;
    Pid const pid = record.last_pid;
    bool const was_oom_killed = record.was_oom_killed;
    Fault const fault = record.fault;
    Next const next = what_now(that, before, run, false);
    if (error) {
        owe(action::ReportStartFailed{that.id, *error, next.restart_in, next.failures});
    } else {
        owe(action::ReportExited{that.id, pid, status, run.length, next.restart_in, was_oom_killed, was_asked_for,
                                 is_expected, is_permanent, next.failures, fault});
    }
    run_what_is_owed(that);
}

/// A program that forks has ended only when nobody goes on in its place. Its first process has to end well, and may do
/// so before its successor is known; later ones hand over.
bool Invariants::goes_on(At at, event::Exited const& event) {
    Record const& record = at.record;
    if (!at.policy().forks || event.error || record.state == State::killing) return false;
    bool const is_starting = record.state == State::executing || record.state == State::activating;
    if (record.is_main_known) return event.successor.has_value();
    return event.status == 0 && (is_starting || (event.successor && record.state != State::up));
}

void Invariants::go_on_as(At at, Pid pid) {
    bool const is_first = !std::exchange(at.record.is_main_known, true);
    at.record.is_awaited = false;
    at.record.pid = pid;
    at.record.signal_error = 0;
    owe(action::ReportMain{at.id, pid});
    State const state = at.record.state;
    if (state == State::stopping) return signal_step(at);
    if (!is_first || (state != State::executing && state != State::activating)) return;
    if (is_stopping()) return enter(at, State::activating);
    if (at.policy().readiness == Readiness::started) return come_up(at);
    bool const has_said = std::exchange(at.record.said_ready, false);
    if (!has_said || at.policy().readiness != Readiness::notified) return activate(at);
    owe(action::ReportReady{at.id, now_ - at.record.started});
    come_up(at);
}

/// Means nothing before the first process has ended, and nothing to one that is killed or does not run.
void Invariants::apply(event::MainFound const& event) {
    At const that = at(event.id);
    bool const is_taken = that.policy().forks && that.record.state != State::killing &&
                          (that.record.is_awaited || (is_alive(that.record) && that.record.is_main_known));
    if (is_taken && that.record.pid != event.pid) go_on_as(that, event.pid);
}

/// Where a process goes that has ended.
Invariants::Next Invariants::what_now(At at, State before, Run run, bool is_clone_failure) {
    Record& record = at.record;
    bool is_held = std::exchange(record.is_to_be_held, false);
    bool const restarts = std::exchange(record.is_to_restart, false);
    bool const is_bad = std::exchange(record.went_bad, false);
    // Its program has changed while the rest of its tree was on its way out: what ended was another one.
    bool const is_other = std::exchange(record.is_stale, false) && record.state == State::clearing &&
                          at.policy().kind != ProgramKind::scheduled &&
                          (!run.is_clean || at.policy().on_change == OnChange::restart);
    bool const is_own_end = is_bad || before == State::starting || before == State::executing ||
                            before == State::activating || before == State::up;
    if (!is_wanted(at)) {
        // What has come to its end before its turn to stop has something to undo.
        bool const is_done = is_stopping() && is_own_end && run.is_clean && at.policy().has_on_stop &&
                             at.policy().kind == ProgramKind::one_shot;
        is_done ? enter(at, State::done) : forget(at);
        return {};
    }
    // It was not wanted for a while, and comes back as one of a program that is held as a whole.
    if (!is_own_end && !restarts && at.program.is_held) is_held = true;
    if (is_held) {
        enter(at, State::held);
        return {};
    }
    if (is_own_end && !restarts && !is_other) return restart(at, run, is_clone_failure);
    // We had stopped it, and it is wanted again.
    if (!restarts && at.policy().kind == ProgramKind::scheduled) {
        enter(at, State::down);
        return {};
    }
    want_again(at);
    return {Duration::zero()};
}

Invariants::Next Invariants::restart(At at, Run run, bool is_clone_failure) {
    ProgramPolicy const& policy = at.policy();
    bool const ends_by_itself = policy.kind != ProgramKind::service;
    bool is_restarted = policy.restart == Restart::always || (policy.restart == Restart::on_failure && !run.is_clean);
    if ((ends_by_itself && run.is_clean) || run.is_permanent) is_restarted = false;
    if (!is_restarted) {
        end_for_good(at, run.is_clean);
        return {};
    }
    Bounds const bounds = delay_bounds(at, run, is_clone_failure);
    // What was chosen for the jitter, and with it whether that start is one too many.
    std::optional<Duration> chosen;
    bool is_reported = false;
    bool is_given_up = false;
    for (launcher::Action const& action : *actions_) {
        if (auto const* const exited = as<action::ReportExited>(action); exited && exited->id == at.id) {
            chosen = exited->restart_in;
            is_reported = true;
        }
        if (auto const* const fail = as<action::ReportStartFailed>(action); fail && fail->id == at.id) {
            chosen = fail->restart_in;
            is_reported = true;
        }
        if (auto const* const up = as<action::ReportGaveUp>(action); up && up->id == at.id) is_given_up = true;
    }
    require(is_reported, "every end is reported", at.id);
    at.record.failures = bounds.failures;
    at.record.was_short = is_short(policy.backoff, run);
    auto const is_one_too_many = [&](Duration delay) {
        if (!policy.start_limit) return false;
        auto const& starts = at.record.starts;
        std::size_t const most = policy.start_limit->count;
        return starts.size() >= most && in(delay)-starts[starts.size() - most] < policy.start_limit->interval;
    };
    if (is_given_up) {
        require(!chosen, "what is given up is not started again", at.id);
        require(is_one_too_many(bounds.low), "only what has used up its starts is given up", at.id);
        owe(action::ReportGaveUp{at.id, policy.start_limit->count});
        if (policy.start_limit->exit_code) end_container(at, *policy.start_limit->exit_code);
        end_for_good(at, false);
        return {};
    }
    require(chosen.has_value(), "what is wanted is restarted, unless its policy says otherwise", at.id);
    require(!is_one_too_many(*chosen), "what has used up its starts is given up", at.id);
    require(*chosen > Duration::zero() || !bounds.must_wait, "nothing spins", at.id);
    require(*chosen >= bounds.low && *chosen <= bounds.high, "a delay is what the restart policy says", at.id);
    enter(at, *chosen > Duration::zero() ? State::backoff : State::waiting);
    if (*chosen > Duration::zero()) at.record.due = in(*chosen);
    return {chosen, bounds.is_failure ? bounds.failures : 0};
}

/// The documented rule, by another way than the supervisor's: a power instead of a loop, bounds instead of a value.
Invariants::Bounds Invariants::delay_bounds(At at, Run run, bool is_clone_failure) const {
    RestartPolicy const& policy = at.policy().backoff;
    Duration const least = is_clone_failure ? shortest_retry : Duration::zero();
    std::uint32_t failures = run.length >= policy.reset_after ? 0 : at.record.failures;
    bool const is_success = run.is_clean && run.length >= policy.minimum_run;
    if (!is_success) ++failures;
    if (!policy.always_waits && (is_success || failures == 1)) return {least, least, failures, !is_success, false};
    double const power = is_success ? 0 : failures - (policy.always_waits ? 1.0 : 2.0);
    auto const maximum = static_cast<double>(policy.max_delay.count());
    double const plain = std::min(maximum, static_cast<double>(policy.delay.count()) * std::pow(policy.factor, power));
    double const rounding = 1 + plain * 1e-9;
    Duration const low(static_cast<Duration::rep>(std::max(0.0, plain * (1 - policy.jitter) - rounding)));
    Duration const high(static_cast<Duration::rep>(std::min(maximum, plain * (1 + policy.jitter) + rounding)));
    // The short form of the rule, whatever the numbers: no program spins.
    double const shortest = static_cast<double>(std::min(policy.delay, policy.max_delay).count()) * (1 - policy.jitter);
    bool const must_wait = shortest >= 1000 && at.record.was_short && is_short(policy, run);
    return {std::max(low, least), std::max(high, least), failures, !is_success, must_wait};
}

void Invariants::end_for_good(At at, bool is_success) {
    enter(at, is_success ? State::done : State::failed);
    if (!is_success && at.record.exit_code == 0) at.record.exit_code = 1;
    if (!is_success && at.policy().has_on_failure) {
        if (at.record.helpers[place(Helper::on_failure)] == Running::no) {
            run_helper(at, Helper::on_failure);
        } else {
            at.record.fails_again = true;
        }
    }
    if (is_success && at.policy().has_on_success) {
        if (at.record.helpers[place(Helper::on_success)] == Running::no) {
            run_helper(at, Helper::on_success);
        } else {
            at.record.succeeds_again = true;
        }
    }
    bool const is_run_of_many = at.policy().kind == ProgramKind::scheduled && is_success;
    if (at.policy().critical && !is_run_of_many) end_container(at, is_success ? 0 : at.record.exit_code);
}

/// The first cause counts. What becomes of auxiliary programs is none.
void Invariants::end_container(At at, int exit_code) {
    if (at.policy().auxiliary) return saw(AuxiliaryCase::failed);
    if (!ending_) ending_ = Ending{at.id, exit_code};
}

// Helpers.

void Invariants::apply(event::HelperEnded const& event) {
    At const that = at(event.id);
    Running const was = std::exchange(that.record.helpers[place(event.helper)], Running::no);
    require(was != Running::no, "the script ends only what runs", event.id);
    bool const counts = was == Running::yes;
    switch (event.helper) {
        case Helper::pre_stop:
            if (that.record.state == State::pre_stop) counts ? send_stop(that) : run_helper(that, Helper::pre_stop);
            return;
        case Helper::on_failure:
            if (std::exchange(that.record.fails_again, false) && !is_stopping()) run_helper(that, Helper::on_failure);
            return;
        case Helper::on_success:
            if (std::exchange(that.record.succeeds_again, false) && !is_stopping())
                run_helper(that, Helper::on_success);
            return;
        case Helper::on_stop:
            if (that.record.state == State::undoing) undone(that);
            return;
        case Helper::readiness:
            if (!counts || that.record.state != State::activating || awaits_main(that)) return;
            if (!event.ok) {
                that.record.probe = in(that.policy().probe_interval);
                return;
            }
            owe(action::ReportReady{event.id, now_ - that.record.started});
            return come_up(that);
        default: break;
    }
    std::size_t const check = event.helper == Helper::health ? 0 : place(event.helper) - place(Helper::health_2) + 1;
    bool const is_there = check < that.policy().checks.size();
    if (counts && is_there && that.record.state == State::up) judge_health(that, check, event.ok);
}

void Invariants::judge_health(At at, std::size_t which, bool ok) {
    launcher::Health const& health = at.policy().checks[which];
    Check& check = at.record.checks[which];
    check.probe = in(health.interval);
    if (ok) {
        if (check.bad >= health.retries) owe(action::ReportHealthy{at.id, which});
        check.bad = 0;
        return;
    }
    if (now_ < at.record.started + health.start_period) return;
    if (++check.bad != health.retries) return;
    owe(action::ReportUnhealthy{at.id, health.retries, health.action, which});
    switch (health.action) {
        case HealthAction::report: return;
        case HealthAction::exit: return end_container(at, 1);
        case HealthAction::restart:
            at.record.went_bad = true;
            at.record.fault = Fault::unhealthy;
            return stop(at);
    }
}

void Invariants::probe(At at) {
    has_moved_ = true;
    if (at.record.helpers[place(Helper::readiness)] != Running::no) {  // of the run before; its end is still awaited
        at.record.probe = in(at.policy().probe_interval);
        return;
    }
    at.record.probe = never;
    run_helper(at, Helper::readiness);
}

void Invariants::probe_health(At at, std::size_t check) {
    has_moved_ = true;
    Helper const helper = launcher::helper_of_check(check);
    bool const is_free = at.record.helpers[place(helper)] == Running::no;
    at.record.checks[check].probe = is_free ? never : in(at.policy().checks[check].interval);
    if (is_free) run_helper(at, helper);
}

// What somebody asks for.

void Invariants::apply(event::ScheduleDue const& event) {
    if (!is_stopping() && is_scheduled(event.program)) run_scheduled(event.program, std::nullopt);
}

void Invariants::apply(event::StopAsked const& event) {
    ++stops_asked_;
    if (!is_stopping()) return begin_stop(event.exit_code);
    if (stops_asked_ < 2) return;
    if (last_sweep_ == 0) return hurry();
    if (last_sweep_ == SIGTERM) sweep(SIGKILL);
}

void Invariants::apply(event::SignalReceived const& event) {
    for_each([&](At at) {
        if (!is_alive(at.record)) return;
        if (at.policy().auxiliary) return saw(AuxiliaryCase::passed_over);
        owe_signal(at, event.signo, action::Why::forward);
    });
}

void Invariants::apply(event::Command const& event) {
    if (static_cast<std::size_t>(event.program) >= programs_.size()) return;
    Program& program = programs_[static_cast<std::size_t>(event.program)];
    auto const is_asked = [&](At at) {
        return at.id.program == event.program && (!event.number || *event.number == at.id.number);
    };
    if (event.verb == event::Verb::signal) {
        return for_each([&](At at) {
            if (is_asked(at) && is_alive(at.record)) owe_signal(at, event.signo, action::Why::asked);
        });
    }
    if (is_stopping() || !program.is_configured) return;
    bool const is_of_files = event.verb == event::Verb::renew || event.verb == event::Verb::reload;
    if (!event.number && !is_of_files) program.is_held = event.verb == event::Verb::stop;
    if (!event.number && event.verb == event::Verb::stop) program.is_run_owed = false;
    bool has_run = false;
    for_each([&](At at) {
        if (is_asked(at) && is_wanted(at)) has_run |= command(at, event);
    });
    bool const is_start = event.verb == event::Verb::start || event.verb == event::Verb::restart;
    bool const wants_run = program.policy.kind == ProgramKind::scheduled && is_start;
    if (wants_run && !has_run) run_scheduled(event.program, event.number);
}

bool Invariants::command(At at, event::Command const& event) {
    bool const is_active = at.record.state == State::executing || at.record.state == State::activating;
    switch (event.verb) {
        case event::Verb::start: return start_by_command(at);
        case event::Verb::stop: stop_by_command(at); return false;
        case event::Verb::restart: return restart_by_command(at, event.number.has_value());
        case event::Verb::renew:
            if (is_active || at.record.state == State::up) stop_for_restart(at);
            return false;
        case event::Verb::reload:
            if (is_active) at.record.is_stale = true;
            if (at.record.state == State::up) owe_signal(at, at.policy().change_signal, action::Why::reload);
            return false;
        case event::Verb::signal: return false;
    }
    return false;
}

/// Returns whether it runs for that. A place of a scheduled program becomes free at most: one run is asked for.
bool Invariants::start_by_command(At at) {
    bool const is_scheduled = at.policy().kind == ProgramKind::scheduled;
    switch (at.record.state) {
        case State::held:
            if (is_scheduled) enter(at, State::down);
            break;
        case State::backoff: want_again(at); return true;
        case State::done:
        case State::failed: break;
        case State::starting: at.record.is_to_be_held = false; return false;
        case State::draining:
        case State::pre_stop:
        case State::stopping:
        case State::killing:
            if (!std::exchange(at.record.is_to_be_held, false)) return false;
            at.record.went_bad = false;
            at.record.is_to_restart = true;
            return true;
        case State::clearing:
            if (!std::exchange(at.record.is_to_be_held, false) && is_scheduled) return false;
            at.record.went_bad = false;
            at.record.is_to_restart = true;
            return true;
        case State::down:
        case State::waiting:
        case State::executing:
        case State::activating:
        case State::up: return false;
        case State::undoing: {
            at.record.is_to_be_held = false;
            bool const did_restart = std::exchange(at.record.is_to_restart, true);
            return !did_restart;
        }
    }
    if (is_scheduled) return false;
    want_again(at);
    return true;
}

void Invariants::stop_by_command(At at) {
    switch (at.record.state) {
        case State::executing:
        case State::activating:
        case State::up: at.record.is_to_be_held = true; return stop(at);
        case State::starting:
        case State::draining:
        case State::pre_stop:
        case State::stopping:
        case State::killing:
        case State::clearing:
        case State::undoing:
            at.record.is_to_be_held = true;
            at.record.is_to_restart = false;
            return;
        case State::down:
        case State::waiting:
        case State::backoff: return enter(at, State::held);
        case State::done:
        case State::failed:
            if (has_to_be_undone(at.policy(), at.record)) {
                at.record.is_to_be_held = true;
                return undo(at);
            }
            if (at.policy().kind == ProgramKind::scheduled) enter(at, State::held);
            return;
        case State::held: return;
    }
}

bool Invariants::restart_by_command(At at, bool is_at_once) {
    switch (at.record.state) {
        case State::executing:
        case State::activating:
        case State::up: stop_for_restart(at, is_at_once); return true;
        case State::draining:
        case State::pre_stop:
        case State::stopping:
        case State::killing:
        case State::clearing:
            at.record.is_to_be_held = at.record.went_bad = false;
            at.record.is_to_restart = true;
            return true;
        case State::starting:
        case State::waiting: at.record.is_to_be_held = false; return true;
        case State::undoing:
            at.record.is_to_be_held = false;
            at.record.is_to_restart = true;
            return true;
        case State::done:
            if (!has_to_be_undone(at.policy(), at.record)) return start_by_command(at);
            at.record.is_to_restart = true;
            undo(at);
            return true;
        case State::down:
        case State::backoff:
        case State::failed:
        case State::held: return start_by_command(at);
    }
    return false;
}

/// In the free place with the lowest number, or in the one asked for.
void Invariants::run_scheduled(ProgramId program, std::optional<ProcessNumber> number) {
    bool is_begun = false;
    bool is_overlap = false;
    for_each([&](At at) {
        State const state = at.record.state;
        bool const is_free = state == State::down || state == State::done || state == State::failed;
        bool const is_asked = at.id.program == program && (!number || *number == at.id.number);
        if (is_begun || !is_asked || !is_wanted(at)) return;
        bool const is_held = state == State::held || at.record.is_to_be_held;
        is_overlap = is_overlap || !(is_free || is_held);
        if (!is_free) return;
        want_again(at);
        is_begun = true;
    });
    if (is_begun || !is_overlap) return;
    Program& late = programs_[static_cast<std::size_t>(program)];
    if (late.policy.makes_up && !std::exchange(late.is_run_owed, true)) return;
    owe(action::ReportSkipped{program});
}

/// A missed run comes when a place is free for it, and only one.
void Invariants::run_what_is_owed(At at) {
    State const state = at.record.state;
    bool const is_free = state == State::down || state == State::done || state == State::failed;
    if (is_free && is_wanted(at) && !ending_ && std::exchange(at.program.is_run_owed, false)) want_again(at);
}

// What follows for others.

void Invariants::follow() {
    if (finished_) return;
    if (!is_stopping()) {
        if (!ending_) {
            roll();
            stop_what_is_bound();
            start_what_may();
            for_each([this](At at) {
                if (is_to_be_undone_now(at.program, at.record, at.id)) undo(at);
            });
        }
        if (!ending_ && is_over()) end_of_all();
        if (ending_) {
            if (is_auxiliary_alive()) saw(AuxiliaryCase::outlived);
            owe(action::ReportEnding{ending_->id, ending_->exit_code});
            begin_stop(ending_->exit_code);
        }
    } else if (last_sweep_ == 0) {
        take_turns(false);
    }
    end_stop_when_all_down();
}

/// Who is bound to somebody who is not ready does not run. One that is stopped is not ready either.
void Invariants::stop_what_is_bound() {
    for (bool has_stopped = true; has_stopped;) {
        has_stopped = false;
        for_each([&](At at) {
            bool const runs = at.record.state == State::executing || at.record.state == State::activating ||
                              at.record.state == State::up;
            if (!runs || !at.program.is_configured) return;
            auto const& bound = at.policy().binds_to;
            if (std::ranges::all_of(bound, [this](ProgramId id) { return is_ready(id); })) return;
            at.record.is_to_restart = true;
            stop(at);
            has_stopped = true;
        });
    }
}

/// One that serves goes on until others are back; one that does not is restarted at once.
void Invariants::stop_for_restart(At at, bool is_at_once) {
    stop_or_roll(at, is_at_once || at.record.state != State::up || is_unwell(at.policy(), at.record));
}

void Invariants::stop_or_roll(At at, bool is_at_once) {
    at.record.is_to_roll = !is_at_once && at.policy().max_unavailable > 0;
    if (at.record.is_to_roll) return;
    at.record.is_to_restart = true;
    stop(at);
}

/// So many may be out of service for it; what is held or done is not missed, and what is ill is missed already.
void Invariants::roll() {
    for (std::size_t at = 0; at < programs_.size(); ++at) {
        Program& program = programs_[at];
        std::uint32_t missed = 0;
        for (std::size_t number = 0; number < program.policy.count && number < program.records.size(); ++number) {
            Record const& record = program.records[number];
            bool const serves = record.state == State::up && !is_unwell(program.policy, record);
            missed += !serves && record.state != State::held && record.state != State::done ? 1U : 0U;
        }
        for (std::size_t number = 0; number < program.records.size(); ++number) {
            Record& record = program.records[number];
            bool const serves = !is_unwell(program.policy, record);
            bool const may = program.policy.max_unavailable == 0 || missed < program.policy.max_unavailable;
            if (!record.is_to_roll || (serves && !may)) continue;
            missed += serves ? 1U : 0U;
            record.is_to_restart = true;
            stop({program, record, {ProgramId(at), ProcessNumber(number + 1)}});
        }
    }
}

void Invariants::start_what_may() {
    for_each([this](At at) {
        if (at.record.state != State::waiting || !may_start(at.program, at.id.number)) return;
        at.record.starts.push_back(now_);
        enter(at, State::starting);
        pending_.push_back(at.id);
        at.record.has_no_watchdog = false;
        at.record.fault = Fault::none;
        owe(action::Spawn{at.id});
    });
}

/// Nothing runs or ever will by itself, but for what only serves the launcher.
bool Invariants::is_over() const {
    bool is_any_ended = false;
    bool is_any_left = false;
    for_each([&](Program const& program, Record const& record, ProcessId) {
        if (program.policy.auxiliary) return;
        bool const has_ended = record.state == State::done || record.state == State::failed;
        is_any_ended = is_any_ended || has_ended;
        bool const is_put_aside = record.state == State::held && program.is_held && !program.policy.auto_start;
        bool const is_idle = record.state == State::down || record.state == State::waiting || is_put_aside;
        is_any_left = is_any_left || (!has_ended && !is_idle);
    });
    for (std::size_t id = 0; id < programs_.size(); ++id) {
        launcher::ProgramPolicy const& policy = programs_[id].policy;
        is_any_left = is_any_left || (is_scheduled(ProgramId(id)) && policy.count > 0 && !policy.auxiliary);
    }
    return is_any_ended && !is_any_left;
}

/// With the exit code of the first that has failed; of those that are done, the last one is named.
void Invariants::end_of_all() {
    Record const* first_failed = nullptr;
    Record const* last_done = nullptr;
    ProcessId failed{}, done{};
    for_each([&](At at) {
        if (at.policy().auxiliary) return;
        if (at.record.state == State::failed && (!first_failed || at.record.last_end < first_failed->last_end)) {
            first_failed = &at.record;
            failed = at.id;
        }
        if (at.record.state == State::done && (!last_done || at.record.last_end > last_done->last_end)) {
            last_done = &at.record;
            done = at.id;
        }
    });
    first_failed ? end_container(at(failed), first_failed->exit_code) : end_container(at(done), 0);
}

// Time, and the end.

void Invariants::apply(event::NoChildLeft const&) {
    if (last_sweep_ == 0) return;
    finished_ = true;
    owe(action::Finish{exit_code_});
}

void Invariants::apply(event::TimePassed const&) {
    if (is_stopping() && now_ >= *stop_end()) return give_up();
    if (sweep_due_ <= now_) sweep(SIGKILL);
    if (is_stopping() && last_sweep_ == 0) {
        if (now_ >= latest_kill()) cancel_all_helpers();
        take_turns(true);
    }
    for_each([this](At at) {
        if (at.record.due <= now_) time_passed(at);
        if (at.record.run_due <= now_) {
            has_moved_ = at.record.went_bad = true;
            at.record.fault = Fault::run_timeout;
            owe(action::ReportTimedOut{at.id, action::TimedOut::run});
            stop(at);
        }
        if (at.record.probe <= now_) probe(at);
        for (std::size_t check = 0; check < launcher::most_checks; ++check)
            if (at.record.checks[check].probe <= now_) probe_health(at, check);
    });
}

void Invariants::time_passed(At at) {
    has_moved_ = true;
    switch (at.record.state) {
        case State::backoff: return enter(at, State::waiting);
        case State::executing:
        case State::activating:
            at.record.went_bad = true;
            at.record.fault = Fault::start_timeout;
            owe(action::ReportTimedOut{at.id, action::TimedOut::start});
            return kill(at);
        case State::up:
            at.record.went_bad = true;
            at.record.fault = Fault::watchdog;
            owe(action::ReportTimedOut{at.id, action::TimedOut::watchdog});
            cancel_probes(at);
            enter(at, State::stopping);
            at.record.step = aborted;
            at.record.due = in(at.policy().stop_timeout);
            return signal_step(at);
        case State::draining: return after_drain(at);
        case State::pre_stop: return send_stop(at);
        case State::stopping:
        case State::clearing: return after_step(at);
        case State::undoing: cancel_helper(at, Helper::on_stop); return undone(at);
        default: require(false, "the script waits only where something is due", at.id);
    }
}

}  // namespace triton::simulation
