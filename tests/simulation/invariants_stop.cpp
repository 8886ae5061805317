// How one process is stopped, and how all are: the order and the times that the rules ask for.

#include <algorithm>
#include <cmath>
#include <csignal>

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

bool depends_on(ProgramPolicy const& policy, ProgramId id) {
    auto const names_it = [id](std::vector<ProgramId> const& list) { return std::ranges::count(list, id) > 0; };
    return names_it(policy.after) || names_it(policy.requires_);
}

}  // namespace

// One: drain, helper, signal and CONT, KILL.

void Invariants::stop(At at) {
    cancel_helper(at, Helper::readiness);
    cancel_helper(at, Helper::health);
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
    at.record.due = in(at.policy().stop_timeout);
    if (is_stopping()) at.record.due = std::min(at.record.due, latest_kill());
    owe_signal(at, at.policy().stop_signal, action::Why::stop, at.policy().stop_scope);
    owe_signal(at, SIGCONT, action::Why::forward, at.policy().stop_scope);
}

void Invariants::kill(At at) {
    for (Helper const helper : {Helper::pre_stop, Helper::readiness, Helper::health})
        cancel_helper(at, helper);
    enter(at, State::killing);
    owe_signal(at, SIGKILL, action::Why::kill, StopScope::tree);
}

/// When `part` of what is left of this process's stop ends. In a stop of all where the time is short, drain, helper and
/// signal shrink alike.
void Invariants::set_share(At at, Duration part, Duration next) {
    at.record.due = in(part);
    if (!is_stopping()) return;
    auto const all = static_cast<double>((part + next + at.policy().stop_timeout).count());
    auto const left = static_cast<double>(std::max(latest_kill() - now_, Duration::zero()).count());
    if (all <= left) return;
    at.record.due = now_ + Duration(std::llround(left * (static_cast<double>(part.count()) / all)));
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
            case State::waiting:
            case State::backoff:
            case State::done:
            case State::failed:
            case State::held: return forget(at);
            case State::executing:
            case State::activating:
            case State::up:  // they go on until it is their turn, but nobody watches them any more
                cancel_helper(at, Helper::readiness);
                cancel_helper(at, Helper::health);
                at.record.due = at.record.probe = never;
                return;
            case State::draining: {
                TimePoint const before = at.record.due;
                set_share(at, std::max(before - now_, Duration::zero()), helper_time(at.policy()));
                if (at.record.due < before) return;
                at.record.due = before;
                at.record.is_share = false;
                return;
            }
            case State::pre_stop: return set_share(at, at.policy().pre_stop_timeout, Duration::zero());
            case State::stopping: at.record.due = std::min(at.record.due, latest_kill()); return;
        }
    });
    plan_turns();
    take_turns(true);
}

/// What depends on another program does, and everything but auxiliary programs stops before those, configured or not.
bool Invariants::stops_before(Program const& one, Program const& other, ProgramId id) {
    if (one.policy.auxiliary != other.policy.auxiliary) return other.policy.auxiliary;
    return one.is_configured && depends_on(one.policy, id);
}

/// So long may the stop of a program take, in nanoseconds.
double Invariants::need(Program const& program) const {
    if (is_down(program)) return 0;
    return static_cast<double>(
        (program.policy.drain + helper_time(program.policy) + program.policy.stop_timeout).count());
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
                bool const is_gone = other.is_turn && is_down(other);  // and with it all that depend on it
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
        if (is_alive(at.record) && at.record.state != State::killing) kill(at);
    });
}

void Invariants::cancel_all_helpers() {
    for_each([this](At at) {
        for (std::size_t helper = 0; helper < launcher::helper_kinds; ++helper)
            cancel_helper(at, static_cast<Helper>(helper));
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
