#include "launcher/supervisor/supervisor.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <limits>
#include <utility>

#include <sys/wait.h>

#include "launcher/supervisor/places.h"

namespace triton::launcher {

namespace {

constexpr Duration shortest_retry = milliseconds(1);

bool is_alive(ProcessState state) {
    using enum ProcessState;
    switch (state) {
        case executing:
        case activating:
        case up:
        case draining:
        case pre_stop:
        case stopping:
        case killing: return true;
        case down:
        case waiting:
        case starting:
        case backoff:
        case done:
        case failed:
        case undoing:
        case clearing:
        case held: return false;
    }
    std::unreachable();
}

/// Why the latest start of a process has failed; nullopt: it has not.
std::optional<process::SpawnError> error_of(ProcessRecord const& process) {
    if (process.error_code == 0) return std::nullopt;
    return process::SpawnError{static_cast<process::SpawnStage>(process.error_stage), process.error_code};
}

/// The container's exit code, as a shell would give it.
std::uint8_t exit_code_of(int status, std::optional<process::SpawnError> const& error) {
    if (error) return error->code == ENOENT ? 127 : 126;
    int const code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return static_cast<std::uint8_t>(code);
}

bool is_among(std::vector<config::End> const& ends, int status) {
    if (ends.empty()) return false;
    int const end = WIFSIGNALED(status) ? config::signal_end + WTERMSIG(status) : WEXITSTATUS(status);
    return std::ranges::binary_search(ends, end);
}

/// Whether the policy wants another start after such an end.
bool is_restarted(ProgramPolicy const& policy, bool is_success) {
    if (policy.kind != ProgramKind::service) return !is_success && policy.restart != Restart::never;
    switch (policy.restart) {
        case Restart::always: return true;
        case Restart::on_failure: return !is_success;
        case Restart::never: return false;
    }
    std::unreachable();
}

}  // namespace

void Supervisor::handle(Event const& event, TimePoint now, std::vector<Action>& actions) {
    now_ = now;
    // Room is made before anything changes: a lack of memory for an action must not stop us halfway.
    [[maybe_unused]] std::size_t const before = actions.size();
    std::size_t const most = room_ + helpers_;
    actions.reserve(before + most);
    actions_ = &actions;
    if (phase_ != Phase::finished) {
        std::visit([this](auto const& which) { on(which); }, event);
        if (has_news_ || may_be_over_ || ending_ || phase_ != Phase::running) settle();
    }
    actions_ = nullptr;
    assert(actions.size() - before <= std::max(most, room_ + helpers_));
}

std::optional<TimePoint> Supervisor::next_deadline() const {
    if (phase_ == Phase::finished) return std::nullopt;
    if (phase_ == Phase::running && timers_ == 0) return std::nullopt;
    return earliest_;
}

// Events.

void Supervisor::on(event::Spawned const& event) {
    Place const at = place(event.id);
    assert(at.process.state == State::starting);
    at.process.pid = event.pid;
    at.process.since = now_;
    for (CheckRecord& check : checks(at))
        check.failures = 0;
    at.process.is_untold = true;
    at.process.is_main_known = at.process.said_ready = false;
    at.process.signal_error = 0;
    set_state(at, State::executing);
    bool const is_replaced = at.process.is_stale && at.policy().on_change == OnChange::restart;
    if (is_replaced) at.process.is_to_restart = true;
    if (is_wanted(at) && !at.process.is_to_be_held && !is_replaced) {
        if (at.policy().run_timeout > Duration::zero()) set_timer(at.process.run_until, in(at.policy().run_timeout));
        if (at.policy().start_timeout > Duration::zero()) set_timer(at.process.deadline, in(at.policy().start_timeout));
        return;
    }
    if (is_in_a_hurry()) return kill(at);
    if (phase_ == Phase::running || at.program.is_stop_begun) stop(at);
}

void Supervisor::on(event::SpawnFailed const& event) {
    Place const at = place(event.id);
    assert(at.process.state == State::starting);
    at.process.exit_code = exit_code_of(0, event.error);
    at.process.last_end = now_;
    remember_error(at, event.error);
    // The retry never comes at once: this failure came at once, too, and the two would alternate without letting time
    // pass.
    Outcome const outcome = decide_after_end(at, State::starting, {Duration::zero(), false}, shortest_retry);
    act(action::ReportStartFailed{event.id, event.error, outcome.restart_in, outcome.failures});
    if (outcome.is_given_up) act(action::ReportGaveUp{event.id, at.policy().start_limit->count});
    run_what_is_owed(at);
}

void Supervisor::on(event::Executed const& event) {
    Place const at = place(event.id);
    // A process that is being stopped is on its way out, whether it executes or not; its start is reported all the
    // same.
    at.process.state == State::executing ? executed(at) : tell_start(at);
}

void Supervisor::on(event::Exited const& event) {
    Place const at = place(event.id);
    State before = at.process.state;
    assert(is_alive(before));
    if (outlives(event)) return go_on(at, event.successor);
    if (event.error) {
        at.process.is_untold = false;
    } else {
        tell_start(at);  // it has executed, but its end was faster than that news
        if (before == State::executing) before = says_when_ready(at.policy()) ? State::activating : State::up;
    }
    cancel_helpers_of_run(at);
    at.process.last_end = now_;
    at.process.last_status = event.status;
    at.process.has_status = true;
    remember_error(at, event.error);
    at.process.exit_code = exit_code_of(event.status, event.error);
    at.process.was_oom_killed = event.was_oom_killed;
    if (event.leaves_rest) {
        bool const has_time = phase_ == Phase::running || now_ < latest_kill_;
        if (before != State::killing && !event.error && has_time) return clear(at, before);
        act(action::SignalRest{at.id, SIGKILL, action::Why::kill});
    }
    ended(at, before);
}

void Supervisor::on(event::TreeEmpty const& event) {
    Place const at = place(event.id);
    if (at.process.state == State::clearing) ended(at, at.process.ended_in);
}

void Supervisor::on(event::SignalFailed const& event) {
    Place const at = place(event.id);
    if (is_alive(at.process.state)) at.process.signal_error = static_cast<std::uint16_t>(event.error);
}

bool Supervisor::gives_time_to_rest(ProcessId id) const {
    Program const& program = programs_[index(id.program)];
    if (!program.policy || index(id.number) >= program.processes.size()) return false;
    return program.policy->stop_scope == StopScope::tree && program.processes[index(id.number)].state != State::killing;
}

/// Gives the rest of the tree the time of a stop. What was told to stop together with the process is not told again,
/// and has no more time than that.
void Supervisor::clear(Place const& at, State before) {
    TimePoint const until = at.process.deadline;
    bool const is_told = before == State::stopping && at.process.stop_step != last_step;
    at.process.ended_in = before;
    at.process.is_stale = false;
    set_state(at, State::clearing);
    if (is_told) return set_timer(at.process.deadline, until);
    at.process.stop_step = 0;
    send_step(at);
}

/// Concludes from the end of a process, as it is recorded, what follows.
void Supervisor::ended(Place const& at, State before) {
    Pid const pid = at.process.pid;
    int const status = at.process.last_status;
    bool const was_oom_killed = std::exchange(at.process.was_oom_killed, false);
    auto const error = error_of(at.process);
    // A service that ends before it was ready has failed, whatever its exit code: nobody may rely on it.
    bool const is_too_early = before == State::activating && at.policy().kind == ProgramKind::service;
    ProgramPolicy const& policy = at.policy();
    bool const is_expected = !error && is_among(policy.success_ends, status);
    bool const is_success = (status == 0 && !error) || is_expected;
    bool const is_clean = is_success && !at.process.has_run_badly && !is_too_early;
    if (policy.is_main && phase_ == Phase::stopping && exit_code_ == 0 && !is_success)
        exit_code_ = at.process.exit_code;
    bool const is_permanent = !error && is_among(policy.permanent_ends, status);
    Run const run{at.process.last_end - at.process.since, is_clean, is_permanent};
    bool const was_stopped = before != State::executing && before != State::activating && before != State::up;
    bool const was_asked_for = was_stopped && !at.process.has_run_badly;
    Fault const fault = at.process.fault;
    Outcome const outcome = decide_after_end(at, before, run);
    if (error) {
        act(action::ReportStartFailed{at.id, *error, outcome.restart_in, outcome.failures});
    } else {
        act(action::ReportExited{at.id, pid, status, run.length, outcome.restart_in, was_oom_killed, was_asked_for,
                                 is_expected, is_permanent, outcome.failures, fault});
    }
    if (outcome.is_given_up) act(action::ReportGaveUp{at.id, at.policy().start_limit->count});
    run_what_is_owed(at);
}

void Supervisor::on(event::Ready const& event) {
    Place const at = place(event.id);
    if (at.process.state == State::executing && phase_ == Phase::running) executed(at);  // only a program can speak
    if (at.process.state == State::activating && awaits_main(at)) at.process.said_ready = true;
    bool const is_awaited = at.process.state == State::activating && at.policy().kind != ProgramKind::one_shot &&
                            at.policy().readiness == Readiness::notified;
    if (!is_awaited || phase_ != Phase::running || awaits_main(at)) return;
    become_ready(at);
}

void Supervisor::become_ready(Place const& at) {
    act(action::ReportReady{at.id, now_ - at.process.since});
    come_up(at);
}

// Programs that fork.

bool Supervisor::outlives(event::Exited const& end) const {
    Program const& program = programs_[index(end.id.program)];
    ProcessRecord const& process = program.processes[index(end.id.number)];
    if (!program.policy->forks || end.error) return false;
    switch (process.state) {
        case State::executing:
        case State::activating: return process.is_main_known ? end.successor.has_value() : end.status == 0;
        case State::up: return process.is_main_known && end.successor.has_value();
        case State::draining:
        case State::pre_stop:
        case State::stopping: return end.successor && (process.is_main_known || end.status == 0);
        case State::killing:
        case State::down:
        case State::waiting:
        case State::starting:
        case State::backoff:
        case State::done:
        case State::failed:
        case State::undoing:
        case State::clearing:
        case State::held: return false;
    }
    std::unreachable();
}

bool Supervisor::takes_main(ProcessId id) const {
    Program const& program = programs_[index(id.program)];
    if (!program.policy || !program.policy->forks || index(id.number) >= program.processes.size()) return false;
    ProcessRecord const& process = program.processes[index(id.number)];
    if (!is_alive(process.state) || process.state == State::killing) return false;
    // While the first process lives, a stop is for that one.
    return process.is_main_known || process.pid == Pid{};
}

void Supervisor::on(event::MainFound const& event) {
    if (!takes_main(event.id)) return;
    Place const at = place(event.id);
    if (at.process.pid != event.pid) go_on_as(at, event.pid);
}

/// Goes on with a program whose process has ended although the program has not.
void Supervisor::go_on(Place const& at, std::optional<Pid> successor) {
    tell_start(at);
    if (successor) return go_on_as(at, *successor);
    TimePoint const start_deadline = at.process.deadline;
    at.process.pid = Pid{};
    set_state(at, State::activating);
    if (start_deadline != never) set_timer(at.process.deadline, start_deadline);
}

void Supervisor::go_on_as(Place const& at, Pid pid) {
    bool const is_first = !std::exchange(at.process.is_main_known, true);
    at.process.pid = pid;
    at.process.signal_error = 0;
    act(action::ReportMain{at.id, pid});
    State const state = at.process.state;
    if (state == State::stopping) return signal_step(at);
    if (!is_first || (state != State::executing && state != State::activating)) return;
    if (phase_ != Phase::running) return set_state(at, State::activating);  // it waits for its turn to stop
    if (at.policy().readiness == Readiness::started) return come_up(at);
    if (std::exchange(at.process.said_ready, false) && at.policy().readiness == Readiness::notified)
        return become_ready(at);
    activate(at);
}

void Supervisor::on(event::SignalReceived const& event) {
    for_each([&](Place const& at) {
        if (is_alive(at.process.state) && !at.policy().auxiliary) signal(at, event.signo, action::Why::forward);
    });
}

void Supervisor::on(event::NoChildLeft const&) {
    if (phase_ == Phase::sweeping) finish(exit_code_);
}

// Starts.

/// Begins a start, now or as soon as everything that it depends on is there.
void Supervisor::begin(Place const& at) {
    ProgramPolicy const& policy = at.policy();
    if (policy.after.empty() && policy.requires_.empty() && !policy.is_sequential && !starts_last_) return start(at);
    set_state(at, State::waiting);
    has_news_ = true;  // so that settle() looks
}

/// Begins a start that somebody asks for: earlier failures do not count.
void Supervisor::begin_anew(Place const& at) {
    at.process.failures = 0;
    std::ranges::fill(start_times(at), TimePoint::min());
    begin(at);
}

void Supervisor::start(Place const& at) {
    if (std::span<TimePoint> const times = start_times(at); !times.empty())
        times[at.process.starts % times.size()] = now_;
    ++at.process.starts;
    at.process.fault = Fault::none;
    at.process.is_unwatched = false;
    set_state(at, State::starting);
    act(action::Spawn{at.id});
}

/// Whether readiness comes later than execve.
bool Supervisor::says_when_ready(ProgramPolicy const& policy) {
    return policy.kind == ProgramKind::one_shot || policy.readiness != Readiness::started || policy.forks;
}

/// Reports the start, unless it was reported: every reported end has a reported start before it.
void Supervisor::tell_start(Place const& at) {
    if (std::exchange(at.process.is_untold, false)) act(action::ReportStarted{at.id, at.process.pid});
}

void Supervisor::executed(Place const& at) {
    tell_start(at);
    if (phase_ != Phase::running) return set_state(at, State::activating);  // it waits for its turn to stop
    says_when_ready(at.policy()) ? activate(at) : come_up(at);
}

void Supervisor::activate(Place const& at) {
    TimePoint const start_deadline = at.process.deadline;
    set_state(at, State::activating);
    if (start_deadline != never) set_timer(at.process.deadline, start_deadline);
    ProgramPolicy const& policy = at.policy();
    bool const is_probed = policy.kind != ProgramKind::one_shot && policy.readiness == Readiness::probed;
    if (is_probed && !awaits_main(at)) probe(at);
}

void Supervisor::come_up(Place const& at) {
    set_state(at, State::up);
    ProgramPolicy const& policy = at.policy();
    if (Duration const limit = watchdog(at); limit > Duration::zero()) set_timer(at.process.deadline, in(limit));
    std::span<CheckRecord> const mine = checks(at);
    for (std::size_t check = 0; check < mine.size(); ++check)
        set_timer(mine[check].probe_at, in(policy.checks[check].interval));
    bool const is_told = policy.on_change == OnChange::signal || policy.is_told_of_files;
    if (std::exchange(at.process.is_stale, false) && is_told) signal(at, policy.change_signal, action::Why::reload);
}

// Ends.

void Supervisor::remember_error(Place const& at, std::optional<process::SpawnError> const& error) {
    at.process.error_stage = error ? static_cast<std::uint8_t>(error->stage) : std::uint8_t{0};
    at.process.error_code = error ? static_cast<std::uint16_t>(error->code) : std::uint16_t{0};
}

Supervisor::Outcome Supervisor::decide_after_end(Place const& at, State before, Run run, Duration least) {
    bool const is_held = std::exchange(at.process.is_to_be_held, false);
    bool const restarts = std::exchange(at.process.is_to_restart, false);
    bool const is_bad = std::exchange(at.process.has_run_badly, false);
    bool const is_stale = std::exchange(at.process.is_stale, false) && at.process.state == State::clearing;
    bool const is_own_end = before == State::starting || before == State::executing || before == State::activating ||
                            before == State::up || is_bad;
    if (!is_wanted(at)) {
        bool const is_done = phase_ == Phase::stopping && is_own_end && run.is_clean;
        set_state(at, State::done);
        if (!is_done || !is_undone_by_stop(at)) down(at);  // else it is undone when its turn comes
        return {};
    }
    if (is_held || (!is_own_end && !restarts && at.program.is_held)) {
        set_state(at, State::held);
        return {};
    }
    // It was asked to start again, or has become another program, while the rest of its tree was on its way out.
    bool const is_other = is_stale && at.policy().kind != ProgramKind::scheduled &&
                          (!run.is_clean || at.policy().on_change == OnChange::restart);
    if (is_own_end && !restarts && !is_other) return decide_by_policy(at, run, least);
    if (!restarts && at.policy().kind == ProgramKind::scheduled) {
        set_state(at, State::down);  // it was not to run now, and waits for its time like the others
        return {};
    }
    begin_anew(at);  // we had stopped it, and it is wanted again
    return {Duration::zero()};
}

Supervisor::Outcome Supervisor::decide_by_policy(Place const& at, Run run, Duration least) {
    if (run.is_permanent || !is_restarted(at.policy(), run.is_clean)) {
        conclude(at, run.is_clean);
        return {};
    }
    RestartDecision const decision = decide_restart(at.policy().backoff, at.process.failures, run, random());
    at.process.failures = decision.failures;
    Duration const delay = std::max(decision.delay, least);
    if (is_one_too_many(at, in(delay))) {
        if (auto const code = at.policy().start_limit->exit_code) end_container(at, *code);
        conclude(at, false);
        return {std::nullopt, true};
    }
    if (delay > Duration::zero()) {
        set_state(at, State::backoff);
        set_timer(at.process.deadline, in(delay));
    } else {
        begin(at);
    }
    return {delay, false, is_failure(at.policy().backoff, run) ? decision.failures : 0};
}

/// Settles a process that is not started again by itself.
void Supervisor::conclude(Place const& at, bool is_success) {
    set_state(at, is_success ? State::done : State::failed);
    if (!is_success && at.process.exit_code == 0) at.process.exit_code = 1;
    if (!is_success && at.policy().has_on_failure) run_helper(at, Helper::on_failure);
    if (is_success && at.policy().has_on_success) run_helper(at, Helper::on_success);
    // A scheduled program goes on with its next run.
    bool const is_end = !is_success || at.policy().kind != ProgramKind::scheduled;
    if (at.policy().critical && is_end) end_container(at, is_success ? 0 : at.process.exit_code);
}

void Supervisor::down(Place const& at) {
    set_state(at, State::down);
    // A number that is not to run needs no memory of the past, but helpers under way must not get lost.
    std::ranges::fill(start_times(at), TimePoint::min());
    ProcessRecord const before = std::exchange(at.process, ProcessRecord{});
    at.process.helpers = before.helpers;
    at.process.cancelled = before.cancelled;
}

std::span<TimePoint> Supervisor::start_times(Place const& at) {
    if (!at.policy().start_limit) return {};
    std::size_t const count = at.policy().start_limit->count;
    return std::span(at.program.start_times).subspan(index(at.id.number) * count, count);
}

std::span<CheckRecord> Supervisor::checks(Place const& at) {
    std::size_t const count = at.policy().checks.size();
    return std::span(at.program.checks).subspan(index(at.id.number) * count, count);
}

bool Supervisor::is_one_too_many(Place const& at, TimePoint start) {
    if (!at.policy().start_limit) return false;
    std::span<TimePoint> const times = start_times(at);
    if (times.empty()) return true;
    TimePoint const oldest = times[at.process.starts % times.size()];
    return oldest != TimePoint::min() && start - oldest < at.policy().start_limit->interval;
}

/// Ends the container at the end of this event. The first cause counts.
void Supervisor::end_container(Place const& at, int exit_code) {
    if (!ending_ && !at.policy().auxiliary) ending_ = Ending{at.id, exit_code};
}

// What follows for others.

void Supervisor::settle() {
    bool const is_going_on = phase_ == Phase::running && !ending_;
    if (has_news_ && is_going_on) {
        roll();
        stop_bound();
        start_waiting();
    }
    if (is_undoing_awaited_ && is_going_on) undo_unwanted();
    if (std::exchange(may_be_over_, false) && !ending_ && is_over()) ending_ = last_ending();
    if (ending_ && phase_ == Phase::running) {
        act(action::ReportEnding{ending_->id, ending_->exit_code});
        begin_stop(ending_->exit_code);
    }
    ending_.reset();
    if (phase_ == Phase::stopping && has_news_) advance_stop();
    has_news_ = false;
    finish_stop_when_all_down();
}

bool Supervisor::may_start(Program const& program) const {
    auto const is_there = [this](ProgramId id) { return is_ready(id); };
    auto const is_quiet = [this](ProgramId id) { return is_settled(id); };
    return std::ranges::all_of(program.policy->after, is_quiet) &&
           std::ranges::all_of(program.policy->requires_, is_there);
}

void Supervisor::start_waiting() {
    for (Program& program : programs_) {
        if (count(program, {State::waiting}) == 0 || !may_start(program)) continue;
        if (program.policy->is_sequential) {
            start_in_order(program);
            continue;
        }
        for_each(program, [this](Place const& at) {
            if (at.process.state == State::waiting) start(at);
        });
    }
}

/// Undoes what is not wanted any more, in the order of a stop of all: a file system is not taken away from those that
/// still write to it.
void Supervisor::undo_unwanted() {
    is_undoing_awaited_ = false;
    auto const is_going = [this](ProgramId id) { return is_leaving(programs_[index(id)]); };
    for (Program& program : programs_) {
        if (count(program, {State::done}) == 0) continue;
        for_each(program, [&](Place const& at) {
            if (is_wanted(at) || !is_undone_by_stop(at)) return;
            if (std::ranges::none_of(at.program.dependants, is_going)) return undo(at);
            is_undoing_awaited_ = true;
        });
    }
}

/// Those with a number above the count.
std::span<ProcessRecord const> Supervisor::unwanted(Program const& program) {
    std::span<ProcessRecord const> const all(program.processes);
    return all.subspan(std::min<std::size_t>(program.count, all.size()));
}

/// How many are done, are not wanted any more, and wait for their undoing: they stand for nobody who is wanted.
std::uint32_t Supervisor::to_be_undone(Program const& program) {
    return static_cast<std::uint32_t>(std::ranges::count(unwanted(program), State::done, &ProcessRecord::state));
}

/// Whether it has a process that is not wanted any more and is still there.
bool Supervisor::is_leaving(Program const& program) {
    return std::ranges::any_of(unwanted(program),
                               [](ProcessRecord const& process) { return process.state != State::down; });
}

/// Starts processes in order: each waits until those before it are ready or nothing more is expected of them.
void Supervisor::start_in_order(Program& program) {
    bool is_its_turn = true;
    for_each(program, [&](Place const& at) {
        if (is_its_turn && at.process.state == State::waiting) start(at);
        State const state = at.process.state;
        is_its_turn = is_its_turn &&
                      (state == State::up || state == State::done || state == State::failed || state == State::held);
    });
}

void Supervisor::roll() {
    for (Program& program : programs_)
        if (program.to_roll > 0) roll(program);
}

/// Stops the next processes that are to restart, as long as no more than max_unavailable are out of service. One that
/// is held or done counts as in service: that is by intent. One that is unwell is out of service already, so it does
/// not wait.
void Supervisor::roll(Program& program) {
    using enum ProcessState;
    std::uint32_t const in_service = count(program, {up, held, done}) - program.unwell - to_be_undone(program);
    std::uint32_t unavailable = program.count - std::min(program.count, in_service);
    std::uint32_t const most = program.policy->max_unavailable;  // 0: a new configuration no longer limits it
    for_each(program, [&](Place const& at) {
        bool const is_in_service = !at.process.is_unwell;
        if (!at.process.is_to_roll || (is_in_service && most > 0 && unavailable >= most)) return;
        unavailable += static_cast<std::uint32_t>(is_in_service);
        at.process.is_to_restart = true;
        stop(at);
    });
}

/// Stops a process to restart it, at once or when its turn comes; until then it stays in service.
void Supervisor::stop_for_restart(Place const& at, bool is_at_once) {
    bool const is_in_service = at.process.state == State::up && !at.process.is_unwell;
    if (at.policy().max_unavailable > 0 && is_in_service && !is_at_once) {
        set_to_roll(at, true);
        has_news_ = true;
        return;
    }
    at.process.is_to_restart = true;
    stop(at);
}

void Supervisor::stop_bound() {
    for (Program& program : programs_)
        if (program.is_configured) stop_bound(program);
}

/// Stops programs that are bound to one that is not ready. The recursion is as deep as the longest chain of programs.
void Supervisor::stop_bound(Program& program) {
    if (program.policy->binds_to.empty()) return;
    if (count(program, {State::executing, State::activating, State::up}) == 0) return;
    if (std::ranges::all_of(program.policy->binds_to, [this](ProgramId id) { return is_ready(id); })) return;
    for_each(program, [this](Place const& at) {
        State const state = at.process.state;
        if (state != State::executing && state != State::activating && state != State::up) return;
        at.process.is_to_restart = true;
        stop(at);
    });
    for (ProgramId const id : program.dependants)
        if (programs_[index(id)].is_configured) stop_bound(programs_[index(id)]);
}

/// Whether nothing is left that could do anything by itself. What still waits is waiting for something that has failed.
bool Supervisor::is_over() const {
    using enum ProcessState;
    if (phase_ != Phase::running || scheduled_ > 0) return false;
    bool has_ended = false;
    for (Program const& program : programs_) {
        if (is_auxiliary(program)) continue;
        std::uint32_t const ended = count(program, {done, failed});
        std::uint32_t const idle = count(program, {down, waiting}) + (is_passive(program) ? count(program, {held}) : 0);
        if (idle + ended < program.processes.size()) return false;
        has_ended = has_ended || ended > 0;
    }
    return has_ended;
}

/// The first process that has failed, otherwise the last one that was done.
Supervisor::Ending Supervisor::last_ending() const {
    ProcessRecord const* chosen = nullptr;
    Ending ending{{}, 0};
    for (std::size_t id = 0; id < programs_.size(); ++id) {
        if (is_auxiliary(programs_[id])) continue;
        for (std::size_t at = 0; at < programs_[id].processes.size(); ++at) {
            ProcessRecord const& process = programs_[id].processes[at];
            bool const is_failed = process.state == State::failed;
            if (!is_failed && process.state != State::done) continue;
            bool const is_better = !chosen || (is_failed && chosen->state == State::done) ||
                                   (is_failed && process.last_end < chosen->last_end) ||
                                   (!is_failed && chosen->state == State::done && process.last_end > chosen->last_end);
            if (!is_better) continue;
            chosen = &process;
            ending = {{ProgramId{static_cast<std::uint32_t>(id)}, ProcessNumber{static_cast<std::uint32_t>(at + 1)}},
                      is_failed ? process.exit_code : 0};
        }
    }
    return ending;
}

// Queries.

std::uint32_t Supervisor::count(Program const& program, std::initializer_list<State> states) {
    std::uint32_t count = 0;
    for (State const state : states)
        count += program.in_state[static_cast<std::size_t>(state)];
    return count;
}

std::uint32_t Supervisor::running_count() const {
    using enum ProcessState;
    std::uint32_t running = 0;
    for (Program const& program : programs_) {
        if (!is_auxiliary(program))
            running += count(program, {executing, activating, up, draining, pre_stop, stopping, killing, clearing});
    }
    return running;
}

bool Supervisor::is_ready() const {
    for (std::size_t id = 0; id < programs_.size(); ++id) {
        bool const is_awaited = !is_auxiliary(programs_[id]) && !is_passive(programs_[id]);
        if (is_awaited && !is_ready(ProgramId{static_cast<std::uint32_t>(id)})) return false;
    }
    return true;
}

bool Supervisor::is_idle(ProgramId id) const {
    if (index(id) >= programs_.size()) return true;
    Program const& program = programs_[index(id)];
    return !program.is_configured && is_down(program) && program.helpers == 0;
}

bool Supervisor::is_idle(ProcessId id) const {
    ProcessRecord const& process = programs_[index(id.program)].processes[index(id.number)];
    return process.state == State::down && process.helpers == 0;
}

bool Supervisor::is_ready(ProgramId id) const {
    Program const& program = programs_[index(id)];
    if (!program.is_configured || program.policy->kind == ProgramKind::scheduled) return true;
    return count(program, {State::up, State::done}) - program.unwell - to_be_undone(program) >= program.count;
}

bool Supervisor::is_settled(ProgramId id) const {
    Program const& program = programs_[index(id)];
    if (!program.is_configured || program.policy->kind == ProgramKind::scheduled) return true;
    return count(program, {State::up, State::done, State::failed, State::held}) - to_be_undone(program) >=
           program.count;
}

ProgramPolicy const& Supervisor::policy(ProgramId id) const {
    static ProgramPolicy const none;
    bool const is_known = index(id) < programs_.size() && programs_[index(id)].policy;
    return is_known ? *programs_[index(id)].policy : none;
}

std::uint32_t Supervisor::size(ProgramId id) const {
    return index(id) < programs_.size() ? static_cast<std::uint32_t>(programs_[index(id)].processes.size()) : 0;
}

ProcessState Supervisor::state(ProcessId id) const {
    return programs_[index(id.program)].processes[index(id.number)].state;
}

ProcessView Supervisor::view(ProcessId id) const {
    Program const& program = programs_[index(id.program)];
    ProcessRecord const& process = program.processes[index(id.number)];
    ProcessView view{.state = process.state,
                     .latest_pid = process.pid,
                     .fault = process.fault,
                     .since = process.since,
                     .starts = process.starts,
                     .failures = process.failures,
                     .is_ready = (process.state == State::up && !process.is_unwell) || process.state == State::done};
    std::size_t const checks = program.policy ? program.policy->checks.size() : 0;
    for (CheckRecord const& check : std::span(program.checks).subspan(index(id.number) * checks, checks))
        view.bad_probes = std::max(view.bad_probes, check.failures);
    if (is_alive(process.state) && process.pid != Pid{}) view.pid = process.pid;
    if (view.pid) view.signal_error = process.signal_error;
    view.is_to_be_held = process.is_to_be_held;
    view.is_main_awaited = is_alive(process.state) && program.policy->forks && !process.is_main_known;
    if (process.has_status) view.last_status = process.last_status;
    view.last_error = error_of(process);
    if (process.last_end != TimePoint{}) view.last_end = process.last_end;
    if (process.state == State::backoff) view.restart_at = process.deadline;
    return view;
}

/// Uses splitmix64 (Steele, Lea, Flood, 2014), the upper 53 bits.
double Supervisor::random() {
    std::uint64_t z = (random_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
}

}  // namespace triton::launcher
