// How one process is stopped, and how all are.

#include <algorithm>
#include <cassert>
#include <csignal>
#include <utility>

#include "launcher/supervisor/places.h"

namespace triton::launcher {

namespace {

/// The waits of all signals after this one together.
Duration time_after(ProgramPolicy const& policy, std::size_t step) {
    Duration time{};
    for (std::size_t later = step + 1; later < policy.stop_steps.size(); ++later)
        time += policy.stop_steps[later].wait;
    return time;
}

}  // namespace

// One.

void Supervisor::stop(Place const& at) {
    cancel_probes(at);
    ProgramPolicy const& policy = at.policy();
    if (at.process.pid == Pid{}) return kill(at);  // there is no process to signal
    if (policy.drain <= Duration::zero()) return go_on_after_drain(at);
    set_state(at, State::draining);
    Duration const helper = policy.has_pre_stop ? policy.pre_stop_timeout : Duration::zero();
    set_timer(at.process.deadline, share(policy.drain, helper, policy.stop_timeout));
}

void Supervisor::go_on_after_drain(Place const& at) {
    ProgramPolicy const& policy = at.policy();
    if (!policy.has_pre_stop) return send_stop(at);
    set_state(at, State::pre_stop);
    // While nothing else is in a hurry, the shell alone watches the helper's time.
    if (phase_ != Phase::running)
        set_timer(at.process.deadline, share(policy.pre_stop_timeout, Duration::zero(), policy.stop_timeout));
    if (!is_under_way(at.process, Helper::pre_stop)) run_helper(at, Helper::pre_stop);
}

void Supervisor::send_stop(Place const& at) {
    cancel_helper(at, Helper::pre_stop);
    at.process.stop_step = 0;
    set_state(at, State::stopping);
    send_step(at);
}

/// Sends the signal of stop_step. The steps that follow share the time that is left.
void Supervisor::send_step(Place const& at) {
    ProgramPolicy const& policy = at.policy();
    std::size_t const step = at.process.stop_step;
    if (step >= policy.stop_steps.size()) {
        TimePoint const kill_at = in(policy.stop_timeout);
        set_timer(at.process.deadline, phase_ == Phase::running ? kill_at : std::min(kill_at, latest_kill_));
    } else {
        set_timer(at.process.deadline, share(policy.stop_steps[step].wait, Duration::zero(), time_after(policy, step)));
    }
    signal_step(at);
}

/// Sends the signal of this step, and sends it again to a process that takes over.
void Supervisor::signal_step(Place const& at) {
    ProgramPolicy const& policy = at.policy();
    std::size_t const step = at.process.stop_step;
    if (step == last_step) {
        signal(at, SIGABRT, action::Why::watchdog);
        return signal(at, SIGCONT, action::Why::forward);
    }
    int const signo = step < policy.stop_steps.size() ? policy.stop_steps[step].signal : policy.stop_signal;
    signal(at, signo, action::Why::stop, policy.stop_scope);
    // A process that was stopped by a signal would otherwise see nothing before SIGKILL.
    signal(at, SIGCONT, action::Why::forward, policy.stop_scope);
}

/// Goes on when the time of a signal has passed.
void Supervisor::after_step(Place const& at) {
    std::size_t const next = std::size_t{at.process.stop_step} + 1;
    bool const has_time = phase_ == Phase::running || now_ < latest_kill_;
    if (next >= at.policy().stop_steps.size() || !has_time) return kill(at);
    at.process.stop_step = static_cast<std::uint8_t>(next);
    send_step(at);
}

/// Whether stopping the process means to undo what it did.
bool Supervisor::is_undone_by_stop(Place const& at) {
    return at.process.state == State::done && at.policy().kind == ProgramKind::one_shot && at.policy().has_on_stop;
}

void Supervisor::undo(Place const& at) {
    set_state(at, State::undoing);
    hurry_undo(at);
    if (!is_under_way(at.process, Helper::on_stop)) run_helper(at, Helper::on_stop);
}

/// Shortens the time for undoing. As long as there is enough time, the shell alone watches the helper's end.
void Supervisor::hurry_undo(Place const& at) {
    Duration const wanted = at.policy().on_stop_timeout;
    TimePoint const until = share(wanted, Duration::zero(), Duration::zero());
    if (until < in(wanted)) set_timer(at.process.deadline, until);
    if (phase_ != Phase::running) remember_deadline(latest_kill_);
}

/// After undoing, the program is as if it had never run.
void Supervisor::undone(Place const& at) {
    if (!is_wanted(at)) return down(at);
    bool const restarts = std::exchange(at.process.is_to_restart, false);
    bool const is_held = std::exchange(at.process.is_to_be_held, false) || at.program.is_held;
    if (is_held && !restarts) return set_state(at, State::held);
    if (at.policy().kind == ProgramKind::scheduled && !restarts) return down(at);  // it is by now
    begin_anew(at);
}

void Supervisor::kill(Place const& at) {
    if (at.process.state == State::clearing) {
        act(action::SignalRest{at.id, SIGKILL, action::Why::kill});
        return ended(at, at.process.ended_in);
    }
    cancel_helpers_of_run(at);
    set_state(at, State::killing);
    if (at.process.pid == Pid{}) return act(action::EndTree{at.id});
    signal(at, SIGKILL, action::Why::kill, StopScope::tree);
}

void Supervisor::signal(Place const& at, int signo, action::Why why, StopScope scope) {
    if (at.process.state == State::clearing) return act(action::SignalRest{at.id, signo, why});
    if (at.process.pid != Pid{}) act(action::Signal{at.id, at.process.pid, signo, why, scope});
}

/// When the first of three parts of a stop ends. Where there is not enough time, all parts shrink alike. A part that is
/// longer than a whole stop counts as one whole stop: a wish for a day must not leave the others a millisecond.
TimePoint Supervisor::share(Duration part, Duration next, Duration last) const {
    if (phase_ == Phase::running) return in(part);
    auto const number = [](Duration duration) { return static_cast<double>(duration.count()); };
    double const left = number(std::max(latest_kill_ - now_, Duration::zero()));
    if (number(part) + number(next) + number(last) <= left) return in(part);
    auto const most = [&](Duration wish) { return number(std::min(wish, policy_.stop_limit)); };
    double const need = std::max(most(part) + most(next) + most(last), 1.0);  // without a time limit the sum is 0
    return in(Duration(static_cast<Duration::rep>(most(part) / need * left)));
}

// All.

void Supervisor::on(event::StopAsked const& event) {
    switch (phase_) {
        case Phase::running: ++stops_asked_; return begin_stop(event.exit_code);
        case Phase::stopping:
            if (++stops_asked_ > 1) hurry();
            return;
        case Phase::sweeping:
            if (++stops_asked_ > 1 && sweep_signal_ != SIGKILL) sweep(SIGKILL, stop_deadline_);
            return;
        case Phase::finished: return;
    }
}

void Supervisor::begin_stop(int exit_code) {
    phase_ = Phase::stopping;
    exit_code_ = exit_code;
    stop_deadline_ = now_ + policy_.stop_limit;
    latest_kill_ = now_ + policy_.stop_limit * 4 / 5;  // the rest is for dying
    remember_deadline(stop_deadline_);
    for_each([this](Place const& at) { prepare_stop(at); });
    if (wanted_helpers_ > 0) remember_deadline(latest_kill_);
    plan_stop();
    advance_stop();
    for (Program const& program : programs_) {
        if (!program.is_stop_begun) remember_deadline(program.stop_at);
    }
}

/// Ends everything that a stop has no use for. Running processes go on until the turn of their program.
void Supervisor::prepare_stop(Place const& at) {
    ProcessRecord& process = at.process;
    ProgramPolicy const& policy = at.policy();
    switch (process.state) {
        case State::down:
        case State::starting:  // its result decides
        case State::killing: break;
        case State::done:
            if (!is_undone_by_stop(at)) down(at);  // else it is undone when its turn comes
            break;
        case State::undoing: hurry_undo(at); break;
        case State::waiting:
        case State::backoff:
        case State::failed:
        case State::held: down(at); break;
        case State::executing:
        case State::activating:
        case State::up:
            cancel_probes(at);
            stop_checks(at);
            set_timer(process.deadline, never);
            set_timer(process.probe_at, never);
            set_timer(process.run_until, never);
            break;
        case State::draining: {
            Duration const helper = policy.has_pre_stop ? policy.pre_stop_timeout : Duration::zero();
            Duration const left = std::max(process.deadline - now_, Duration::zero());
            set_timer(process.deadline, std::min(process.deadline, share(left, helper, policy.stop_timeout)));
            break;
        }
        case State::pre_stop:
            set_timer(process.deadline, share(policy.pre_stop_timeout, Duration::zero(), policy.stop_timeout));
            break;
        case State::clearing:
        case State::stopping: {
            TimePoint until = std::min(process.deadline, latest_kill_);
            if (Duration const later = time_after(policy, process.stop_step); later > Duration::zero())
                until = std::min(until,
                                 share(std::max(process.deadline - now_, Duration::zero()), Duration::zero(), later));
            set_timer(process.deadline, until);
            break;
        }
    }
}

/// Finds the latest time for each program's turn: the lengths of paths through an acyclic graph. Each round settles at
/// least one more program.
void Supervisor::plan_stop() {
    connect();  // what was on its way out may be gone
    for (Program& program : programs_) {
        ProgramPolicy const* const policy = program.policy.get();
        program.is_stop_begun = false;
        program.need = program.above = program.below = 0;
        if (is_down(program)) continue;
        Duration const helper = policy->has_pre_stop ? policy->pre_stop_timeout : Duration::zero();
        std::uint32_t const to_undo = count(program, {State::done, State::undoing});
        std::uint32_t const others =
            static_cast<std::uint32_t>(program.processes.size()) - to_undo - count(program, {State::down});
        if (others > 0)
            program.need = static_cast<double>(policy->drain.count()) + static_cast<double>(helper.count()) +
                           static_cast<double>(policy->stop_timeout.count());
        if (to_undo > 0) program.need = std::max(program.need, static_cast<double>(policy->on_stop_timeout.count()));
        program.need = std::min(program.need, static_cast<double>(policy_.stop_limit.count()));
    }
    bool has_changed = true;
    for (std::size_t round = 0; has_changed && round <= programs_.size(); ++round) {
        has_changed = false;
        double last = 0, others = 0;  // the longest chains of auxiliary programs, and of those that stop earlier
        for (Program const& program : programs_) {
            double& longest = is_auxiliary(program) ? last : others;
            longest = std::max(longest, is_auxiliary(program) ? program.below : program.above + program.need);
        }
        for (Program& program : programs_) {
            double below = is_auxiliary(program) ? 0 : last;
            for_each_used(program, [&](Program const& used) { below = std::max(below, used.below); });
            below += program.need;
            double above = is_auxiliary(program) ? others : 0;
            for (ProgramId const id : program.dependants)
                above = std::max(above, programs_[index(id)].above + programs_[index(id)].need);
            has_changed = has_changed || above != program.above || below != program.below;
            program.above = above;
            program.below = below;
        }
    }
    auto const left = static_cast<double>((latest_kill_ - now_).count());
    for (Program& program : programs_) {
        double const need = program.above + program.below;
        double const wait = need <= left ? left - program.below : program.above / need * left;
        program.stop_at = in(Duration(static_cast<Duration::rep>(wait)));
    }
}

/// Begins the stop of each program whose turn has come: all that depend on it are down (for an auxiliary one, all
/// others), or time is short.
void Supervisor::advance_stop() {
    auto const is_gone = [this](ProgramId id) {  // and with it all that depend on it, if it is configured
        Program const& program = programs_[index(id)];
        return (program.is_stop_begun || !program.is_configured) && is_down(program);
    };
    auto const is_last_or_down = [](Program const& other) { return is_auxiliary(other) || is_down(other); };
    auto const is_alone = [&](Program const& program) {
        if (is_auxiliary(program) && !std::ranges::all_of(programs_, is_last_or_down)) return false;
        return std::ranges::all_of(program.dependants, is_gone);
    };
    for (bool is_going_on = true; is_going_on;) {
        is_going_on = false;
        for (Program& program : programs_) {
            if (program.is_stop_begun) continue;
            if (program.stop_at > now_ && !is_alone(program)) continue;
            begin_stop_of(program);
            is_going_on = true;
        }
    }
}

void Supervisor::begin_stop_of(Program& program) {
    program.is_stop_begun = true;
    for_each(program, [this](Place const& at) {
        State const state = at.process.state;
        if (state == State::executing || state == State::activating || state == State::up) stop(at);
        if (is_undone_by_stop(at)) undo(at);
    });
}

/// Speeds the stop up when it is asked for a second time.
void Supervisor::hurry() {
    cancel_helpers();
    for_each([this](Place const& at) { kill_if_alive(at); });
}

void Supervisor::kill_if_alive(Place const& at) {
    switch (at.process.state) {
        case State::executing:
        case State::activating:
        case State::up:
        case State::draining:
        case State::pre_stop:
        case State::stopping:
        case State::clearing: return kill(at);
        case State::down:
        case State::waiting:
        case State::starting:
        case State::killing:
        case State::backoff:
        case State::done:
        case State::failed:
        case State::undoing:
        case State::held: return;
    }
}

/// Cancels all helpers: what is not undone by now stays so.
void Supervisor::cancel_helpers() {
    for_each([this](Place const& at) {
        for (std::size_t helper = 0; wanted_helpers_ > 0 && helper < helper_kinds; ++helper)
            cancel_helper(at, static_cast<Helper>(helper));
        if (at.process.state == State::undoing || at.process.state == State::done) down(at);
    });
}

void Supervisor::finish_stop_when_all_down() {
    if (phase_ != Phase::stopping || helpers_ > 0) return;
    if (!std::ranges::all_of(programs_, is_down)) return;
    if (policy_.is_pid_1) {
        if (is_in_a_hurry() || latest_kill_ <= now_) return sweep(SIGKILL, stop_deadline_);
        return sweep(SIGTERM, std::min(now_ + policy_.sweep_timeout, latest_kill_));
    }
    finish(exit_code_);
}

void Supervisor::sweep(int signo, TimePoint until) {
    assert(policy_.is_pid_1);
    phase_ = Phase::sweeping;
    sweep_signal_ = signo;
    phase_deadline_ = until;
    recompute_deadline();
    act(action::Sweep{signo});
}

void Supervisor::finish(int exit_code) {
    phase_ = Phase::finished;
    act(action::Finish{exit_code});
}

void Supervisor::give_up() {
    cancel_helpers();
    for_each([this](Place const& at) {
        kill_if_alive(at);
        if (at.process.state == State::killing && at.process.pid != Pid{})
            act(action::ReportLeft{at.id, at.process.pid});
    });
    finish(exit_code_ != 0 ? exit_code_ : 1);
}

}  // namespace triton::launcher
