// What people and schedules ask for.

#include <utility>

#include "launcher/supervisor/places.h"

namespace triton::launcher {

void Supervisor::on(event::ScheduleDue const& event) {
    if (phase_ != Phase::running || index(event.program) >= programs_.size()) return;
    Program const& program = programs_[index(event.program)];
    if (!program.is_configured || program.policy->kind != ProgramKind::scheduled) return;
    run_scheduled(event.program, std::nullopt);
}

void Supervisor::on(event::Command const& event) {
    if (index(event.program) >= programs_.size()) return;
    Program& program = programs_[index(event.program)];
    auto const for_each_asked = [&](auto call) {
        for_each(program, [&](Place const& at) {
            if (!event.number || *event.number == at.id.number) call(at);
        });
    };
    if (event.verb == event::Verb::signal) {
        return for_each_asked([&](Place const& at) {
            if (view(at.id).pid) signal(at, event.signo, action::Why::asked);
        });
    }
    if (phase_ != Phase::running || !program.is_configured) return;
    if (!event.number && event.verb != event::Verb::renew && event.verb != event::Verb::reload) {
        program.is_held = event.verb == event::Verb::stop;
        if (program.is_held) program.is_run_owed = false;
        may_be_over_ = true;  // all processes of a program that is not to start by itself may have been held one by one
    }
    if (event.verb == event::Verb::renew || event.verb == event::Verb::reload) {
        return for_each_asked([&](Place const& at) {
            if (is_wanted(at)) event.verb == event::Verb::renew ? renew(at) : reload(at);
        });
    }
    bool has_run = false;
    for_each_asked([&](Place const& at) {
        if (!is_wanted(at)) return;
        switch (event.verb) {
            case event::Verb::start: has_run |= start_by_command(at); break;
            case event::Verb::stop: stop_by_command(at); break;
            case event::Verb::restart: has_run |= restart_by_command(at, event.number.has_value()); break;
            case event::Verb::renew:
            case event::Verb::reload:
            case event::Verb::signal: break;
        }
    });
    bool const is_asked_to_run = program.policy->kind == ProgramKind::scheduled && event.verb != event::Verb::stop;
    if (is_asked_to_run && !has_run) run_scheduled(event.program, event.number);
}

/// Restarts a process because something that it uses has changed. One that is not ready yet may have read the old
/// version.
void Supervisor::renew(Place const& at) {
    switch (at.process.state) {
        case State::executing:
        case State::activating:
        case State::up: return stop_for_restart(at);
        case State::starting:
        case State::down:
        case State::waiting:
        case State::draining:
        case State::pre_stop:
        case State::stopping:
        case State::killing:
        case State::clearing:
        case State::backoff:
        case State::done:
        case State::failed:
        case State::held:
        case State::undoing: return;
    }
}

void Supervisor::reload(Place const& at) {
    State const state = at.process.state;
    if (state == State::up) return signal(at, at.policy().change_signal, action::Why::reload);
    if (state == State::executing || state == State::activating) at.process.is_stale = true;
}

/// Runs a scheduled program in its lowest free place, or in the given one. A held process does not count as an
/// overlapping run.
void Supervisor::run_scheduled(ProgramId id, std::optional<ProcessNumber> number) {
    Program& program = programs_[index(id)];
    bool is_begun = false;
    bool is_overlap = false;
    for_each(program, [&](Place const& at) {
        State const state = at.process.state;
        bool const is_free = state == State::down || state == State::done || state == State::failed;
        if (is_begun || !is_wanted(at) || (number && *number != at.id.number)) return;
        if (!is_free) {
            is_overlap = is_overlap || (state != State::held && !at.process.is_to_be_held);
            return;
        }
        begin_anew(at);
        is_begun = true;
    });
    if (is_begun || !is_overlap) return;
    if (program.policy->makes_up && !std::exchange(program.is_run_owed, true)) return;
    act(action::ReportSkipped{id});
}

/// Begins a run that was missed, if its place has become free.
void Supervisor::run_what_is_owed(Place const& at) {
    State const state = at.process.state;
    bool const is_free = state == State::down || state == State::done || state == State::failed;
    if (!is_free || !is_wanted(at) || ending_) return;
    if (std::exchange(at.program.is_run_owed, false)) begin_anew(at);
}

/// Returns whether the process now runs because of that. A place of a scheduled program only becomes free, and takes
/// one run.
bool Supervisor::start_by_command(Place const& at) {
    bool const is_scheduled = at.policy().kind == ProgramKind::scheduled;
    switch (at.process.state) {
        case State::held:
        case State::done:
        case State::failed:
            if (!is_scheduled) break;
            if (at.process.state == State::held) set_state(at, State::down);
            return false;
        case State::backoff: break;
        case State::starting: at.process.is_to_be_held = false; return false;
        case State::draining:
        case State::pre_stop:
        case State::stopping:
        case State::killing:
            if (!std::exchange(at.process.is_to_be_held, false)) return false;
            at.process.has_run_badly = false;
            at.process.is_to_restart = true;
            return true;
        case State::clearing:  // by itself, perhaps, and might not start again
            if (!std::exchange(at.process.is_to_be_held, false) && is_scheduled) return false;
            at.process.has_run_badly = false;
            at.process.is_to_restart = true;
            return true;
        case State::down:
        case State::waiting:
        case State::executing:
        case State::activating:
        case State::up: return false;
        case State::undoing:
            at.process.is_to_be_held = false;
            return std::exchange(at.process.is_to_restart, true) == false;
    }
    begin_anew(at);
    return true;
}

void Supervisor::stop_by_command(Place const& at) {
    switch (at.process.state) {
        case State::executing:
        case State::activating:
        case State::up:
            at.process.is_to_be_held = true;
            stop(at);
            break;
        case State::starting:
        case State::draining:
        case State::pre_stop:
        case State::stopping:
        case State::killing:
        case State::clearing:
        case State::undoing:
            at.process.is_to_be_held = true;
            at.process.is_to_restart = false;
            break;
        case State::down:
        case State::waiting:
        case State::backoff: set_state(at, State::held); break;
        case State::done:
        case State::failed:
            if (is_undone_by_stop(at)) {
                at.process.is_to_be_held = true;
                return undo(at);
            }
            // There is nothing to stop, unless a schedule would start it again.
            if (at.policy().kind == ProgramKind::scheduled) set_state(at, State::held);
            break;
        case State::held: break;
    }
}

bool Supervisor::restart_by_command(Place const& at, bool is_at_once) {
    switch (at.process.state) {
        case State::executing:
        case State::activating:
        case State::up: stop_for_restart(at, is_at_once); return true;
        case State::draining:
        case State::pre_stop:
        case State::stopping:
        case State::killing:
        case State::clearing:
            at.process.is_to_be_held = false;
            at.process.has_run_badly = false;
            at.process.is_to_restart = true;
            return true;
        case State::starting:
        case State::waiting: at.process.is_to_be_held = false; return true;
        case State::undoing:
            at.process.is_to_be_held = false;
            at.process.is_to_restart = true;
            return true;
        case State::done:
            if (!is_undone_by_stop(at)) return start_by_command(at);
            at.process.is_to_restart = true;
            undo(at);
            return true;
        case State::down:
        case State::backoff:
        case State::failed:
        case State::held: return start_by_command(at);
    }
    std::unreachable();
}

}  // namespace triton::launcher
