// How programs come from a configuration, and how the supervisor's whole state is saved as plain data and restored.

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <utility>

#include "launcher/supervisor/places.h"

namespace triton::launcher {

namespace {

// Each helper under way may be cancelled once more. Then come the actions for everything: a report of the end, the
// stop, Finish.
constexpr std::size_t actions_for_all = 16;

/// The most actions that one event causes for each process, without CancelHelper. A plain process may cause a stop,
/// SIGKILL and a report at once; others also have a helper to run and its failure to report.
std::size_t actions_of_one(ProgramPolicy const& policy) {
    bool const is_plain =
        !policy.has_pre_stop && !policy.has_on_failure && !policy.has_on_success && !policy.has_on_stop &&
        policy.run_timeout == Duration::zero() && policy.readiness != Readiness::probed && policy.checks.empty() &&
        policy.watchdog == Duration::zero() && policy.start_timeout == Duration::zero() && !policy.forks;
    return (is_plain ? 4 : 6) + policy.checks.size();  // all of them may be due at once
}

std::size_t start_times_of(ProgramPolicy const& policy, std::size_t processes) {
    return policy.start_limit ? processes * policy.start_limit->count : 0;
}

std::size_t checks_of(ProgramPolicy const& policy, std::size_t processes) { return processes * policy.checks.size(); }

/// Forgets the failures that were counted for another number of them or another action: only the failure that reaches
/// the number has a consequence, and a check that has failed more often already would never have the new one.
void count_anew(std::span<CheckRecord> records, std::span<Health const> before, std::span<Health const> now) {
    if (before.size() != now.size() || now.empty()) return;
    for (std::size_t record = 0; record < records.size(); ++record) {
        Health const& old = before[record % now.size()];
        Health const& changed = now[record % now.size()];
        if (old.retries == changed.retries && old.action == changed.action) continue;
        std::uint32_t const enough = std::max(old.retries, 1U);
        bool const is_ill = old.action == HealthAction::report && records[record].failures >= enough;
        bool const stays_ill = is_ill && changed.action == HealthAction::report;
        records[record].failures = stays_ill ? std::max(changed.retries, 1U) : 0;
    }
}

}  // namespace

Supervisor::Supervisor(SupervisorPolicy const& policy)
    : policy_(policy), random_(policy.seed), room_(actions_for_all) {}

// Room: all that may fail for want of memory.

std::size_t Supervisor::most_actions(std::span<ProgramSpec const> programs) const {
    std::size_t most = room_ + helpers_;
    for (ProgramSpec const& spec : programs) {
        // The larger of the old and the new number; the old one is part of `room_`.
        std::size_t const before = actions_of_one(policy(spec.id));
        std::size_t const each = std::max(before, actions_of_one(spec.policy));
        most += std::max<std::size_t>(spec.policy.count, size(spec.id)) * each - size(spec.id) * before;
    }
    return most;
}

void Supervisor::reserve(std::span<ProgramSpec const> programs) {
    std::size_t most = programs_.size();
    for (ProgramSpec const& spec : programs)
        most = std::max(most, index(spec.id) + 1);
    programs_.reserve(most);
    programs_.resize(most);
    for (Program& program : programs_)
        program.expected_dependants = 0;
    auto const expect = [this](ProgramPolicy const& policy) {
        for (auto const* const list : {&policy.after, &policy.requires_})
            for (ProgramId const id : *list)
                ++programs_.at(index(id)).expected_dependants;
    };
    for (Program const& program : programs_)
        if (!is_down(program)) expect(*program.policy);  // it may be on its way out from now on
    for (ProgramSpec const& spec : programs) {
        Program& program = programs_[index(spec.id)];
        std::size_t const processes = std::max<std::size_t>(spec.policy.count, program.processes.size());
        program.processes.reserve(processes);
        program.start_times.reserve(start_times_of(spec.policy, processes));
        program.checks.reserve(checks_of(spec.policy, processes));
        expect(spec.policy);
    }
    for (Program& program : programs_)
        program.dependants.reserve(program.expected_dependants);
}

// Configurations.

void Supervisor::on(event::ConfigurationAccepted const& event) {
    if (phase_ != Phase::running) return;
    reserve(*event.programs);
    actions_->reserve(actions_->size() + most_actions(*event.programs));
    for (Program& program : programs_) {
        program.is_new = !program.is_configured;
        program.is_configured = program.is_changed = false;
        program.count = 0;
    }
    for (ProgramSpec const& spec : *event.programs)
        take(programs_[index(spec.id)], {event.programs, &spec.policy}, spec.has_changed);
    connect();
    for_each([this](Place const& at) { reconfigure(at); });
    has_news_ = may_be_over_ = true;
}

void Supervisor::take(Program& program, std::shared_ptr<ProgramPolicy const> policy, bool is_changed) {
    ProgramPolicy const* const before = program.policy.get();
    program.is_configured = true;
    program.is_changed = is_changed;
    program.is_other_kind = before && before->kind != policy->kind;
    program.is_judged_anew = before && !before->judges_like(*policy);
    if (!policy->makes_up || policy->kind != ProgramKind::scheduled) program.is_run_owed = false;
    program.count = policy->count;
    if (program.is_new && !policy->auto_start) program.is_held = true;
    std::size_t const processes = std::max<std::size_t>(policy->count, program.processes.size());
    auto const added = static_cast<std::uint32_t>(processes - program.processes.size());
    program.processes.resize(processes);
    program.in_state[static_cast<std::size_t>(State::down)] += added;
    auto const limit_of = [](ProgramPolicy const* of) { return of && of->start_limit ? of->start_limit->count : 0; };
    // The recorded times belong to one limit.
    if (limit_of(before) != limit_of(policy.get())) program.start_times.clear();
    program.start_times.resize(start_times_of(*policy, processes), TimePoint::min());
    // The records belong to the checks of one configuration.
    if (before && before->checks.size() != policy->checks.size()) {
        for (CheckRecord& check : program.checks)
            set_timer(check.probe_at, never);
        program.checks.clear();
    }
    program.checks.resize(checks_of(*policy, processes));
    if (before) count_anew(program.checks, before->checks, policy->checks);
    bool const brings_watchdog = before && before->watchdog == Duration::zero() && policy->watchdog > Duration::zero();
    for (ProcessRecord& process : program.processes)
        if (brings_watchdog && process.state != State::down) process.is_unwatched = true;
    program.policy = std::move(policy);
}

/// Computes what follows from all programs together: who depends on whom, and how much room actions need. What is on
/// its way out still uses what it has required.
void Supervisor::connect() {
    room_ = actions_for_all;
    scheduled_ = 0;
    for (Program& program : programs_) {
        program.dependants.clear();
        if (program.policy) room_ += program.processes.size() * actions_of_one(*program.policy);
        if (program.is_configured) {
            bool const is_scheduled = program.policy->kind == ProgramKind::scheduled && program.count > 0;
            scheduled_ += static_cast<std::uint32_t>(is_scheduled && !program.policy->auxiliary);
        } else {
            program.is_held = program.is_run_owed = false;
        }
    }
    for (std::size_t id = 0; id < programs_.size(); ++id) {
        for_each_used(programs_[id],
                      [id](Program& used) { used.dependants.push_back(ProgramId{static_cast<std::uint32_t>(id)}); });
    }
}

void Supervisor::reconfigure(Place const& at) {
    // As of one that is held already: what comes back is another one, also where this one is still on its way out.
    if (!is_wanted(at)) at.process.is_to_be_held = false;
    bool const is_scheduled = at.policy().kind == ProgramKind::scheduled;
    bool const is_left_to_schedule = is_scheduled && at.program.is_other_kind;
    switch (at.process.state) {
        case State::down:
            if (!is_wanted(at)) return;
            if (at.program.is_held) return set_state(at, State::held);
            if (!is_scheduled) begin_anew(at);
            return;
        case State::backoff:
            // The new configuration may be what it was waiting for.
            at.process.failures = 0;
            return is_wanted(at) && !is_left_to_schedule ? begin_anew(at) : down(at);
        case State::waiting:  // may wait for something else now
            if (!is_wanted(at) || is_left_to_schedule) down(at);
            return;
        case State::held:
            if (!is_wanted(at)) down(at);
            return;
        case State::done:
        case State::failed: return reconfigure_ended(at);
        case State::executing:
        case State::activating:
        case State::up: return is_wanted(at) ? reconfigure_running(at) : stop(at);
        case State::starting:  // its result decides
            if (is_wanted(at) && at.program.is_changed) at.process.is_stale = true;
            return;
        case State::draining:  // its exit decides
        case State::pre_stop:
        case State::stopping:
        case State::killing:
            // The fault that it is stopped for may be mended now.
            if (is_wanted(at) && !is_scheduled && (at.program.is_changed || at.program.is_judged_anew))
                at.process.has_run_badly = false;
            return;
        case State::clearing:
            if (!is_wanted(at)) return;
            if (at.program.is_changed || at.program.is_other_kind) at.process.is_stale = true;
            if (!is_scheduled && (at.program.is_changed || at.program.is_judged_anew)) at.process.has_run_badly = false;
            return;
        case State::undoing: return;  // the end of its helper does
    }
}

/// Starts an ended process again if its program wants that. One that has failed may have failed because of what has
/// changed; one that is done stays done until its program wants it anew. It is another one that comes back, unless it
/// is the same, while the one that was there waits to be undone.
void Supervisor::reconfigure_ended(Place const& at) {
    if (!is_wanted(at)) {
        if (!is_undone_by_stop(at)) return down(at);
        is_undoing_awaited_ = true;  // settle() looks whether others are to go first
        return;
    }
    if (at.program.is_held) return;
    if (at.policy().kind == ProgramKind::scheduled) return;
    bool const has_failed = at.process.state == State::failed;
    Program const& program = at.program;
    if (!program.is_changed && !program.is_other_kind && !(has_failed && program.is_judged_anew)) return;
    bool const is_wanted_anew = has_failed || at.policy().on_change == OnChange::restart;
    if (is_wanted_anew || at.program.is_other_kind || at.program.is_new) begin_anew(at);
}

void Supervisor::reconfigure_running(Place const& at) {
    if (at.program.is_changed) {
        switch (at.policy().on_change) {
            case OnChange::keep: break;
            case OnChange::restart:
                stop_for_restart(at);
                if (!at.process.is_to_roll) return;
                break;
            case OnChange::signal:
                // A process that is not ready may not handle the signal yet, and would die of it by default.
                if (at.process.state != State::up) {
                    at.process.is_stale = true;
                } else {
                    signal(at, at.policy().change_signal, action::Why::reload);
                }
                break;
        }
    }
    watch_anew(at);
}

/// Watches again: readiness, watchdog and health may have changed, because they belong to the program and not to the
/// process. But nobody feeds a watchdog that it was not told of.
void Supervisor::watch_anew(Place const& at) {
    ProgramPolicy const& policy = at.policy();
    ProcessRecord& process = at.process;
    bool const is_up = process.state == State::up;
    bool const is_run_limited = policy.run_timeout > Duration::zero() && policy.run_timeout < never - process.since;
    set_timer(process.run_until, is_run_limited ? process.since + policy.run_timeout : never);
    // The process was to come from what the first one leaves behind, and the new configuration no longer looks for
    // that.
    if (process.pid == Pid{} && !policy.forks) {
        process.is_to_restart = true;
        return stop(at);
    }
    if (process.state == State::activating && !says_when_ready(policy)) {
        cancel_helper(at, Helper::readiness);
        return come_up(at);
    }
    Duration const limit = is_up ? watchdog(at) : policy.start_timeout;
    if (limit <= Duration::zero()) {
        set_timer(process.deadline, never);
    } else if (process.deadline == never) {
        set_timer(process.deadline, in(limit));
    }
    if (process.state == State::executing) return;  // there is nobody to probe yet
    if (is_up) return check_anew(at);
    if (policy.kind == ProgramKind::one_shot || policy.readiness != Readiness::probed || awaits_main(at)) {
        cancel_helper(at, Helper::readiness);
        set_timer(process.probe_at, never);
    } else if (process.probe_at == never && !is_under_way(process, Helper::readiness)) {
        set_timer(process.probe_at, in(policy.probe_interval));
    }
}

void Supervisor::check_anew(Place const& at) {
    std::span<CheckRecord> const mine = checks(at);
    for (std::size_t check = 0; check < most_checks; ++check) {
        Helper const helper = helper_of_check(check);
        if (check >= mine.size()) {
            cancel_helper(at, helper);
        } else if (mine[check].probe_at == never && !is_under_way(at.process, helper)) {
            set_timer(mine[check].probe_at, in(at.policy().checks[check].interval));
        }
    }
    judge_wellness(at);
}

// State.

SupervisorState Supervisor::state() const {
    assert(!ending_ && !has_news_ && "between two events");
    SupervisorState state{.phase = phase_,
                          .programs = {},
                          .random = random_,
                          .exit_code = exit_code_,
                          .stops_asked = stops_asked_,
                          .sweep_signal = sweep_signal_,
                          .phase_deadline = phase_deadline_,
                          .stop_deadline = stop_deadline_,
                          .latest_kill = latest_kill_,
                          .earliest = earliest_};
    state.programs.reserve(programs_.size());
    for (Program const& program : programs_) {
        state.programs.push_back({.policy = program.policy ? *program.policy : ProgramPolicy{},
                                  .is_configured = program.is_configured,
                                  .is_held = program.is_held,
                                  .is_run_owed = program.is_run_owed,
                                  .is_stop_begun = program.is_stop_begun,
                                  .stop_at = program.stop_at,
                                  .processes = program.processes,
                                  .start_times = program.start_times,
                                  .checks = program.checks});
    }
    return state;
}

Supervisor::Supervisor(SupervisorPolicy const& policy, SupervisorState const& state)
    : policy_(policy),
      random_(state.random),
      programs_(state.programs.size()),
      phase_(state.phase),
      exit_code_(state.exit_code),
      stops_asked_(state.stops_asked),
      sweep_signal_(state.sweep_signal),
      phase_deadline_(state.phase_deadline),
      stop_deadline_(state.stop_deadline),
      latest_kill_(state.latest_kill),
      earliest_(state.earliest) {
    for (std::size_t id = 0; id < programs_.size(); ++id) {
        Program& program = programs_[id];
        ProgramRecord const& record = state.programs[id];
        program.policy = std::make_shared<ProgramPolicy const>(record.policy);
        program.count = record.is_configured ? record.policy.count : 0;
        program.is_configured = record.is_configured;
        program.is_held = record.is_held;
        program.is_run_owed = record.is_run_owed;
        program.is_stop_begun = record.is_stop_begun;
        program.stop_at = record.stop_at;
        program.processes = record.processes;
        program.start_times = record.start_times;
        program.checks = record.checks;
        // The state comes from a launcher that does not know checks: the configuration that follows begins them.
        program.checks.resize(checks_of(*program.policy, program.processes.size()));
        if (record.checks.empty()) for_each(program, [](Place const& at) { adopt_check(at); });
        for (CheckRecord const& check : program.checks)
            timers_ += static_cast<std::uint32_t>(check.probe_at != never);
        for (ProcessRecord const& process : program.processes) {
            ++program.in_state[static_cast<std::size_t>(process.state)];
            timers_ += static_cast<std::uint32_t>(process.deadline != never);
            timers_ += static_cast<std::uint32_t>(process.probe_at != never);
            timers_ += static_cast<std::uint32_t>(process.run_until != never);
            program.unwell += static_cast<std::uint32_t>(process.is_unwell);
            program.to_roll += static_cast<std::uint32_t>(process.is_to_roll);
            auto const helpers = static_cast<std::uint32_t>(std::popcount(process.helpers));
            program.helpers += helpers;
            helpers_ += helpers;
            wanted_helpers_ += helpers - static_cast<std::uint32_t>(std::popcount(process.cancelled));
        }
    }
    connect();
}

/// Takes over the state of a launcher that knew one check: its next probe is saved where the one for readiness is.
void Supervisor::adopt_check(Place const& at) {
    ProcessRecord& process = at.process;
    if (process.state != State::up || at.policy().checks.empty()) return;
    checks(at).front().probe_at = std::exchange(process.probe_at, never);
}

}  // namespace triton::launcher
