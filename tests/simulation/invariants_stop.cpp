// How one process is stopped, and how all are: the order and the times that the rules ask for.

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "tests/simulation/invariants.h"

namespace triton::simulation {

namespace {

using launcher::ProgramId;
using launcher::ProgramPolicy;
using launcher::StopScope;
namespace action = launcher::action;

constexpr Duration rounding = std::chrono::microseconds(1);

Duration helper_time(ProgramPolicy const& policy) {
    return policy.has_pre_stop ? policy.pre_stop_timeout : Duration::zero();
}

Duration time_behind(ProgramPolicy const& policy, std::size_t step) {
    Duration time{};
    for (std::size_t at = 0; at < policy.stop_steps.size(); ++at)
        if (at > step) time += policy.stop_steps[at].wait;
    return time;
}

bool depends_on(ProgramPolicy const& policy, ProgramId id) {
    auto const names_it = [id](std::vector<ProgramId> const& list) { return std::ranges::count(list, id) > 0; };
    return names_it(policy.after) || names_it(policy.requires_);
}

}  // namespace

// One: drain, helper, signal and CONT, KILL.

void Invariants::stop(At at) {
    cancel_probes(at);
    if (at.record.is_awaited) return kill(at);
    if (at.policy().drain == Duration::zero()) return after_drain(at);
    enter(at, State::draining);
    set_share(at, at.policy().drain, helper_time(at.policy()));
}

void Invariants::after_drain(At at) {
    if (!at.policy().has_pre_stop) return send_stop(at);
    enter(at, State::pre_stop);
    if (is_stopping()) set_share(at, at.policy().pre_stop_timeout, Duration::zero());
    // At most one of a kind at a time: that of an earlier stop has been cancelled, and its end is still awaited.
    if (at.record.helpers[static_cast<std::size_t>(Helper::pre_stop)] == Running::no) run_helper(at, Helper::pre_stop);
}

void Invariants::send_stop(At at) {
    cancel_helper(at, Helper::pre_stop);
    enter(at, State::stopping);
    at.record.step = 0;
    send_step(at);
}

/// One signal after the other, each with its own time; those of one stop shrink alike where that is short.
void Invariants::send_step(At at) {
    auto const& steps = at.policy().stop_steps;
    if (at.record.step < steps.size()) {
        set_part(at, steps[at.record.step].wait, time_behind(at.policy(), at.record.step));
    } else {
        at.record.due = in(at.policy().stop_timeout);
        if (is_stopping()) at.record.due = std::min(at.record.due, latest_kill());
    }
    signal_step(at);
}

void Invariants::signal_step(At at) {
    if (at.record.step == aborted) {
        owe_signal(at, SIGABRT, action::Why::watchdog);
        return owe_signal(at, SIGCONT, action::Why::forward);
    }
    auto const& steps = at.policy().stop_steps;
    int const signo = at.record.step < steps.size() ? steps[at.record.step].signal : at.policy().stop_signal;
    owe_signal(at, signo, action::Why::stop, at.policy().stop_scope);
    owe_signal(at, SIGCONT, action::Why::forward, at.policy().stop_scope);
}

void Invariants::after_step(At at) {
    bool const is_too_late = is_stopping() && now_ >= latest_kill();
    if (++at.record.step >= at.policy().stop_steps.size() || is_too_late) return kill(at);
    at.record.due = never;
    at.record.is_share = false;
    send_step(at);
}

bool Invariants::is_to_be_undone_now(Program const& program, Record const& record, ProcessId id) const {
    if (is_stopping() || is_wanted(program, id.number) || !has_to_be_undone(program.policy, record)) return false;
    for (std::size_t other = 0; other < programs_.size(); ++other) {
        // What is on its way out names what has gone before, too, whose id a program of the other kind may have by now.
        bool const is_of_kind = programs_[other].policy.auxiliary == program.policy.auxiliary;
        if (!is_of_kind || !depends_on(programs_[other].policy, id.program)) continue;
        for (std::size_t at = 0; at < programs_[other].records.size(); ++at) {
            bool const is_leaving = !is_wanted(programs_[other], launcher::ProcessNumber(at + 1));
            if (is_leaving && programs_[other].records[at].state != State::down) return false;
        }
    }
    return true;
}

/// What a one-shot did is undone by its helper, whose end is awaited, but not for longer than there is time.
void Invariants::undo(At at) {
    enter(at, State::undoing);
    hurry_undo(at);
    run_helper(at, Helper::on_stop);
}

void Invariants::hurry_undo(At at) {
    set_part(at, at.policy().on_stop_timeout, Duration::zero());
    if (!at.record.is_share) at.record.due = never;  // its own time limit is shorter than what there is
}

void Invariants::undone(At at) {
    if (!is_wanted(at)) return forget(at);
    bool const restarts = std::exchange(at.record.is_to_restart, false);
    bool const is_to_be_held = std::exchange(at.record.is_to_be_held, false);
    if (!restarts && (is_to_be_held || at.program.is_held)) return enter(at, State::held);
    if (at.policy().kind == launcher::ProgramKind::scheduled && !restarts) return forget(at);
    want_again(at);
}

void Invariants::kill(At at) {
    if (at.record.has_rest) {
        owe_signal(at, SIGKILL, action::Why::kill);
        return ended(at, at.record.ended_in);
    }
    cancel_helper(at, Helper::pre_stop);
    cancel_probes(at);
    enter(at, State::killing);
    if (at.record.is_awaited) return owe(action::EndTree{at.id});
    owe_signal(at, SIGKILL, action::Why::kill, StopScope::tree);
}

/// When `part` of what is left of this process's stop ends. In a stop of all where the time is short, drain, helper and
/// signal shrink alike.
void Invariants::set_share(At at, Duration part, Duration next) { set_part(at, part, next, at.policy().stop_timeout); }

/// Nobody's wish counts for more than the time that a whole stop has.
void Invariants::set_part(At at, Duration part, Duration next, Duration last) {
    at.record.due = in(part);
    if (!is_stopping()) return;
    Duration const left = std::max(latest_kill() - now_, Duration::zero());
    if (part + next + last <= left) return;
    auto const counted = [this](Duration wish) {
        return static_cast<double>(std::min(wish, policy_.stop_limit).count());
    };
    double const all = counted(part) + counted(next) + counted(last);
    double const ratio = all > 0 ? counted(part) / all : 0;
    at.record.due = now_ + Duration(std::llround(static_cast<double>(left.count()) * ratio));
    at.record.is_share = true;
}

// All.

void Invariants::begin_stop(int exit_code) {
    stop_began_ = now_;
    exit_code_ = exit_code;
    for_each([this](At at) {
        switch (at.record.state) {
            case State::down:
            case State::starting:
            case State::killing: return;
            case State::done:
                if (!has_to_be_undone(at.policy(), at.record)) forget(at);
                return;
            case State::undoing: return hurry_undo(at);
            case State::waiting:
            case State::backoff:
            case State::failed:
            case State::held: return forget(at);
            case State::executing:
            case State::activating:
            case State::up:  // they go on until it is their turn, but nobody watches them any more
                cancel_probes(at);
                for (Check& check : at.record.checks)
                    check.probe = never;
                at.record.due = at.record.probe = at.record.run_due = never;
                return;
            case State::draining: {
                TimePoint const before = at.record.due;
                set_share(at, std::max(before - now_, Duration::zero()), helper_time(at.policy()));
                if (at.record.is_share && at.record.due <= before) return;
                at.record.due = before;
                at.record.is_share = false;
                return;
            }
            case State::pre_stop: return set_share(at, at.policy().pre_stop_timeout, Duration::zero());
            case State::clearing:
            case State::stopping: {
                TimePoint const latest = std::min(at.record.due, latest_kill());
                Duration const left = std::max(at.record.due - now_, Duration::zero());
                Duration const later = time_behind(at.policy(), at.record.step);
                if (later > Duration::zero()) set_part(at, left, later);
                if (at.record.is_share && at.record.due <= latest) return;
                at.record.due = latest;
                at.record.is_share = false;
                return;
            }
        }
    });
    plan_turns();
    take_turns(true);
}

/// What depends on another program does, and everything but auxiliary programs stops before those, configured or not.
bool Invariants::stops_before(Program const& one, Program const& other, ProgramId id) {
    if (one.policy.auxiliary != other.policy.auxiliary) return other.policy.auxiliary;
    return one.is_user && depends_on(one.policy, id);
}

/// So long may the stop of a program take, in nanoseconds.
double Invariants::need(Program const& program) const {
    Duration longest{};
    for (Record const& record : program.records) {
        bool const is_undone = record.state == State::done || record.state == State::undoing;
        if (is_undone) longest = std::max(longest, program.policy.on_stop_timeout);
        if (!is_undone && record.state != State::down)
            longest =
                std::max(longest, program.policy.drain + helper_time(program.policy) + program.policy.stop_timeout);
    }
    return static_cast<double>(std::min(longest, policy_.stop_limit).count());
}

/// And so long that of the longest chain that begins with it and ends with what depends on nothing.
double Invariants::longest_below(ProgramId id) const {
    Program const& program = programs_[static_cast<std::size_t>(id)];
    double longest = 0;
    for (std::size_t other = 0; other < programs_.size(); ++other) {
        if (stops_before(program, programs_[other], ProgramId(other)))
            longest = std::max(longest, longest_below(ProgramId(other)));
    }
    return longest + need(program);
}

/// The longest chain that must be gone before it is its turn.
double Invariants::longest_above(ProgramId id) const {
    double longest = 0;
    for (std::size_t other = 0; other < programs_.size(); ++other) {
        Program const& program = programs_[other];
        if (stops_before(program, programs_[static_cast<std::size_t>(id)], id))
            longest = std::max(longest, longest_above(ProgramId(other)) + need(program));
    }
    return longest;
}

void Invariants::plan_turns() {
    auto const left = static_cast<double>((latest_kill() - now_).count());
    // What an earlier configuration has sent away may not be gone yet.
    for (Program& program : programs_)
        program.is_user = program.is_configured || !is_down(program);
    for (std::size_t id = 0; id < programs_.size(); ++id) {
        double const below = longest_below(ProgramId(id));
        double const above = longest_above(ProgramId(id));
        double const wait = above + below <= left ? left - below : left * (above / (above + below));
        programs_[id].is_turn = false;
        programs_[id].turn_at = now_ + Duration(std::llround(wait));
    }
}

/// A program's turn comes when all that depend on it are down, or when time is short.
void Invariants::take_turns(bool is_time_event) {
    for (bool is_going_on = true; is_going_on;) {
        is_going_on = false;
        for (std::size_t id = 0; id < programs_.size(); ++id) {
            Program& program = programs_[id];
            if (program.is_turn) continue;
            bool const is_alone = std::ranges::none_of(programs_, [&](Program const& other) {
                // And with it all that depend on it, if it is configured.
                bool const is_gone = (other.is_turn || !other.is_configured) && is_down(other);
                return stops_before(other, program, ProgramId(id)) && !is_gone;
            });
            bool const is_late = program.turn_at <= now_ && (is_time_event || is_turn_taken_early(id));
            if (!is_alone && !is_late) continue;
            program.is_turn = is_going_on = has_moved_ = true;
            if (program.policy.auxiliary && std::ranges::any_of(program.records, is_alive))
                saw(is_alone ? AuxiliaryCase::last : AuxiliaryCase::short_time);
            for (std::size_t number = 0; number < program.records.size(); ++number) {
                Record& record = program.records[number];
                State const state = record.state;
                if (state == State::executing || state == State::activating || state == State::up)
                    stop({program, record, {ProgramId(id), launcher::ProcessNumber(number + 1)}});
                if (has_to_be_undone(program.policy, record))
                    undo({program, record, {ProgramId(id), launcher::ProcessNumber(number + 1)}});
            }
        }
    }
}

/// What is due may be done by any event, not only by the next TimePassed.
bool Invariants::is_turn_taken_early(std::size_t program) const {
    return supervisor_->state().programs[program].is_stop_begun;
}

void Invariants::hurry() {
    cancel_all_helpers();
    for_each([this](At at) {
        if (is_there(at.record) && at.record.state != State::killing) kill(at);
    });
}

void Invariants::cancel_all_helpers() {
    for_each([this](At at) {
        for (std::size_t helper = 0; helper < launcher::helper_kinds; ++helper)
            cancel_helper(at, static_cast<Helper>(helper));
        // What is left to undo is left.
        if (at.record.state == State::done || at.record.state == State::undoing) forget(at);
    });
}

/// The whole stop took too long.
void Invariants::give_up() {
    hurry();
    for_each([this](At at) {
        if (is_alive(at.record)) owe(action::ReportLeft{at.id, *at.record.pid});
    });
    finished_ = true;
    owe(action::Finish{exit_code_ != 0 ? exit_code_ : 1});
}

void Invariants::sweep(int signo) {
    last_sweep_ = signo;
    sweep_due_ = signo == SIGKILL ? never : std::min(now_ + policy_.sweep_timeout, latest_kill());
    owe(action::Sweep{signo});
}

void Invariants::end_stop_when_all_down() {
    if (!is_stopping() || finished_ || last_sweep_ != 0 || is_any_helper_left()) return;
    if (!std::ranges::all_of(programs_, [this](Program const& program) { return is_down(program); })) return;
    if (policy_.is_pid_1) return sweep(stops_asked_ > 1 || now_ >= latest_kill() ? SIGKILL : SIGTERM);
    finished_ = true;
    owe(action::Finish{exit_code_});
}

/// Takes over what the supervisor has chosen where only rounding decides, after a look whether it is only that.
void Invariants::settle_shares() {
    if (!is_stopping() || finished_) return;
    bool is_open = *stop_began_ == now_;
    for_each([&](At at) { is_open = is_open || at.record.is_share; });
    if (!is_open) return;
    launcher::SupervisorState const state = supervisor_->state();
    auto const is_close = [](TimePoint one, TimePoint other) {
        return one == other || std::chrono::abs(one - other) <= rounding;
    };
    for_each([&](At at) {
        if (!at.record.is_share) return;
        auto const& program = state.programs[static_cast<std::size_t>(at.id.program)];
        TimePoint const chosen = program.processes[static_cast<std::size_t>(at.id.number) - 1].deadline;
        require(is_close(chosen, at.record.due), "a step of a stop has its share of the time", at.id);
        at.record.due = chosen;
        at.record.is_share = false;
    });
    for (std::size_t id = 0; id < programs_.size(); ++id) {
        if (programs_[id].is_turn) continue;
        TimePoint const chosen = state.programs[id].stop_at;
        require(is_close(chosen, programs_[id].turn_at), "a program's turn comes when its time is short",
                {ProgramId(id), launcher::ProcessNumber{1}});
        programs_[id].turn_at = chosen;
    }
}

}  // namespace triton::simulation
