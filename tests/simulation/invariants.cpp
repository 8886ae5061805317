#include "tests/simulation/invariants.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "tests/simulation/action.h"
#include "tests/simulation/text.h"

namespace triton::simulation {

namespace {

using launcher::Action;
using launcher::ProcessNumber;
using launcher::ProcessState;
using launcher::ProgramId;
using launcher::ProgramKind;
using launcher::Readiness;
using launcher::Supervisor;
namespace event = launcher::event;
namespace action = launcher::action;

constexpr std::size_t place(Helper helper) { return static_cast<std::size_t>(helper); }

ProcessId first_of(std::size_t program) { return {ProgramId(program), ProcessNumber{1}}; }

}  // namespace

void require(bool holds, char const* what) {
    if (!holds) throw Violation{what};
}

void require(bool holds, char const* what, ProcessId id) {
    if (!holds) throw Violation{std::string(what) + ": process " + text(id)};
}

void Invariants::check(launcher::Event const& event, TimePoint now, std::vector<Action> const& actions,
                       Supervisor const& supervisor, std::optional<TimePoint> deadline_before) {
    if (finished_) {
        require(actions.empty(), "nothing is done after Finish");
        require(!supervisor.next_deadline(), "nothing is waited for after Finish");
        // What was under way goes on to end, and nobody is interested.
        if (auto const* const ended = std::get_if<event::HelperEnded>(&event))
            at(ended->id).record.helpers[place(ended->helper)] = Running::no;
        return;
    }
    now_ = now;
    actions_ = &actions;
    supervisor_ = &supervisor;
    owed_.clear();
    has_moved_ = false;
    was_stopping_ = is_stopping();
    ending_.reset();
    std::visit([this](auto const& which) { apply(which); }, event);
    follow();
    for (Action const& action : actions)
        judge(action);
    require(!owed_continue_, "SIGCONT follows the stop signal");
    if (!owed_.empty()) throw Violation{"what is owed is done: " + text(owed_.front())};
    bool const is_time_event = std::holds_alternative<event::TimePassed>(event);
    if (finished_) {
        require(supervisor.phase() == Supervisor::Phase::finished, "Finish finishes");
        require(!supervisor.next_deadline(), "nothing is waited for after Finish");
        check_end();
        return;
    }
    settle_shares();
    check_phase(supervisor);
    check_states(supervisor);
    check_programs(supervisor);
    check_helpers();
    check_deadline(supervisor.next_deadline());
    check_wakeup(actions.size(), is_time_event, deadline_before);
    look_at_auxiliary();
}

// What is known.

std::optional<Invariants::At> Invariants::find(ProcessId id) {
    if (static_cast<std::size_t>(id.program) >= programs_.size()) return std::nullopt;
    Program& program = programs_[static_cast<std::size_t>(id.program)];
    std::size_t const number = static_cast<std::size_t>(id.number);
    if (number == 0 || number > program.records.size()) return std::nullopt;
    return At{program, program.records[number - 1], id};
}

Invariants::At Invariants::at(ProcessId id) {
    auto const found = find(id);
    require(found.has_value(), "it is a process of ours", id);
    return *found;
}

TimePoint Invariants::in(Duration duration) const { return duration < never - now_ ? now_ + duration : never; }

std::optional<TimePoint> Invariants::stop_end() const {
    if (!stop_began_) return std::nullopt;
    return *stop_began_ + policy_.stop_limit;
}

/// The last fifth of a stop is for dying: SIGKILL at its very end would only be followed by "still there".
TimePoint Invariants::latest_kill() const { return *stop_began_ + policy_.stop_limit * 4 / 5; }

bool Invariants::is_wanted(Program const& program, ProcessNumber number) const {
    return !is_stopping() && program.is_configured && static_cast<std::uint32_t>(number) <= program.policy.count;
}

bool Invariants::is_scheduled(ProgramId id) const {
    if (static_cast<std::size_t>(id) >= programs_.size()) return false;
    Program const& program = programs_[static_cast<std::size_t>(id)];
    return program.is_configured && program.policy.kind == ProgramKind::scheduled;
}

bool Invariants::is_ready(ProgramId id) const {
    Program const& program = programs_[static_cast<std::size_t>(id)];
    if (!program.is_configured || program.policy.kind == ProgramKind::scheduled) return true;
    return std::ranges::all_of(program.records.begin(), program.records.begin() + program.policy.count,
                               [&](Record const& r) {
                                   bool const serves = r.state == State::up && !is_unwell(program.policy, r);
                                   return serves || r.state == State::done;
                               });
}

bool Invariants::is_settled(ProgramId id) const {
    Program const& program = programs_[static_cast<std::size_t>(id)];
    if (!program.is_configured || program.policy.kind == ProgramKind::scheduled) return true;
    return std::ranges::all_of(
        program.records.begin(), program.records.begin() + program.policy.count, [](Record const& r) {
            return r.state == State::up || r.state == State::done || r.state == State::failed || r.state == State::held;
        });
}

/// In order: what is before it is up, or nothing more is to come of it.
bool Invariants::may_start(Program const& program, ProcessNumber number) const {
    auto const is_through = [](Record const& r) {
        return r.state == State::up || r.state == State::done || r.state == State::failed || r.state == State::held;
    };
    auto const first = program.records.begin();
    bool const is_its_turn = !program.policy.is_sequential ||
                             std::all_of(first, first + (static_cast<std::ptrdiff_t>(number) - 1), is_through);
    return is_its_turn && std::ranges::all_of(program.policy.after, [this](ProgramId id) { return is_settled(id); }) &&
           std::ranges::all_of(program.policy.requires_, [this](ProgramId id) { return is_ready(id); });
}

bool Invariants::is_down(Program const& program) const {
    return std::ranges::all_of(program.records, [](Record const& r) { return r.state == State::down; });
}

bool Invariants::is_anyone_left() const {
    return !pending_.empty() ||
           std::ranges::any_of(programs_, [](Program const& p) { return std::ranges::any_of(p.records, is_there); });
}

bool Invariants::is_auxiliary_alive() const {
    return std::ranges::any_of(programs_, [](Program const& program) {
        return program.policy.auxiliary && std::ranges::any_of(program.records, is_there);
    });
}

void Invariants::look_at_auxiliary() {
    if (is_stopping() || !is_auxiliary_alive()) return;
    bool const is_any_other = std::ranges::any_of(
        programs_, [this](Program const& program) { return !program.policy.auxiliary && !is_down(program); });
    if (!is_any_other) saw(AuxiliaryCase::alone);
}

bool Invariants::is_any_helper_left() const {
    bool is_any = false;
    for_each([&](Program const&, Record const& record, ProcessId) {
        for (Running const running : record.helpers)
            is_any = is_any || running != Running::no;
    });
    return is_any;
}

bool Invariants::is_any_helper_wanted() const {
    bool is_any = false;
    for_each([&](Program const&, Record const& record, ProcessId) {
        for (Running const running : record.helpers)
            is_any = is_any || running == Running::yes;
    });
    return is_any;
}

bool Invariants::is_unwell(launcher::ProgramPolicy const& policy, Record const& record) {
    for (std::size_t check = 0; check < policy.checks.size(); ++check) {
        bool const only_reports = policy.checks[check].action == launcher::HealthAction::report;
        if (only_reports && record.checks[check].bad >= policy.checks[check].retries) return true;
    }
    return false;
}

std::uint32_t Invariants::worst_check(Record const& record) {
    return std::ranges::max(record.checks, {}, &Check::bad).bad;
}

void Invariants::enter(At at, State state) {
    at.record.state = state;
    at.record.due = at.record.probe = never;
    for (Check& check : at.record.checks)
        check.probe = never;
    at.record.is_to_roll = false;
    at.record.is_share = false;
    if (state != State::executing && state != State::activating && state != State::up) at.record.run_due = never;
}

void Invariants::owe_signal(At at, int signo, action::Why why, launcher::StopScope scope) {
    if (at.record.has_rest) owe(action::SignalRest{at.id, signo, why});
    if (at.record.pid) owe(action::Signal{at.id, *at.record.pid, signo, why, scope});
}

void Invariants::run_helper(At at, Helper helper) {
    at.record.helpers[place(helper)] = Running::yes;
    owe(action::RunHelper{at.id, helper});
}

void Invariants::cancel_helper(At at, Helper helper) {
    if (at.record.helpers[place(helper)] != Running::yes) return;
    at.record.helpers[place(helper)] = Running::cancelled;
    owe(action::CancelHelper{at.id, helper});
}

// What was done about it.

void Invariants::judge(Action const& action) {
    if (auto const* const spawn = as<action::Spawn>(action)) judge_spawn(*spawn);
    if (auto const* const signal = as<action::Signal>(action)) {
        judge_signal(*signal);
    } else if (auto const* const rest = as<action::SignalRest>(action)) {
        judge_signal(*rest);
    } else {
        require(!owed_continue_, "SIGCONT follows the stop signal");
    }
    if (auto const* const run = as<action::RunHelper>(action))
        require(!kernel_.find(run->id, run->helper), "one helper of a kind at a time", run->id);
    if (as<action::Sweep>(action)) {
        require(policy_.is_pid_1, "only PID 1 sweeps");
        require(is_stopping(), "only a stop sweeps");
        require(!is_anyone_left(), "our own processes end before the sweep");
    }
    if (auto const* const ending = as<action::ReportEnding>(action))
        require(!at(ending->id).policy().auxiliary, "no auxiliary program ends the container", ending->id);
    auto const owed = std::ranges::find(owed_, action);
    if (owed == owed_.end()) {
        std::string what = "nothing is done that is not owed: " + text(action);
        if (!owed_.empty()) what += "; owed is: " + text(owed_.front());
        throw Violation{what};
    }
    owed_.erase(owed);
}

void Invariants::judge_spawn(action::Spawn const& action) {
    require(!kernel_.find(action.id), "never two live processes with one number", action.id);
    At const that = at(action.id);
    require(!that.record.pid, "never two live processes with one number", action.id);
    bool const is_rest_killed = std::ranges::any_of(*actions_, [&](Action const& other) {
        return other == Action{action::SignalRest{action.id, SIGKILL, action::Why::kill}};
    });
    require(!kernel_.has_tree(action.id) || is_rest_killed, "nothing starts beside the rest of its tree", action.id);
    require(that.program.is_configured, "only what is wanted is started", action.id);
    // A configuration may bring an auxiliary program, and with it the insight that nothing else is left to run.
    bool const is_of_this_event = !was_stopping_ && that.policy().auxiliary;
    require(!is_stopping() || is_of_this_event, "nothing starts in a stop", action.id);
}

void Invariants::judge_signal(action::Signal const& action) {
    Child const* const child = kernel_.find(action.pid);
    require(child && child->id == action.id, "a reaped pid is never signalled", action.id);
    judge_order(action.id, action.signo, action.why);
}

void Invariants::judge_signal(action::SignalRest const& action) {
    require(kernel_.has_tree(action.id), "only a tree of which something is left is signalled", action.id);
    judge_order(action.id, action.signo, action.why);
}

void Invariants::judge_order(ProcessId id, int signo, action::Why why) {
    require(signo >= 1 && signo <= 64, "a signal is one", id);
    if (owed_continue_) {
        require(*owed_continue_ == id && signo == SIGCONT, "SIGCONT follows the stop signal", id);
        owed_continue_.reset();
    } else if (why == action::Why::stop || why == action::Why::watchdog) {
        owed_continue_ = id;
    }
}

/// The very end. Facts of the kernel, whatever the supervisor or these rules believe.
void Invariants::check_end() const {
    Action const& last = actions_->back();
    require(as<action::Finish>(last) != nullptr, "Finish is the last that is done");
    bool const has_time = now_ < *stop_end();
    require(!has_time || kernel_.children().empty(), "nobody is left behind while there is time");
    for (ProcessId const id : kernel_.trees()) {
        bool const is_killed = std::ranges::any_of(*actions_, [&](Action const& action) {
            return action == Action{action::SignalRest{id, SIGKILL, action::Why::kill}};
        });
        require(is_killed, "no tree is left behind", id);
    }
    require(!has_time || !policy_.is_pid_1 || !kernel_.has_orphans(), "as PID 1 no orphan either");
    for (Command const& command : kernel_.commands()) {
        bool const is_over = std::ranges::any_of(*actions_, [&](Action const& action) {
            return action == Action{action::CancelHelper{command.id, command.helper}};
        });
        require(command.is_cancelled || is_over, "no helper is left at the end that was not told", command.id);
        require(!has_time, "no helper is left at the end while there is time", command.id);
    }
}

// Where that leaves everybody.

void Invariants::check_phase(Supervisor const& supervisor) const {
    using enum Supervisor::Phase;
    require(supervisor.is_in_a_hurry() == (stops_asked_ > 1), "is_in_a_hurry() says whether it was asked twice");
    if (!is_stopping()) return require(supervisor.phase() == running, "only a stop ends the running");
    if (last_sweep_ != 0) return require(supervisor.phase() == sweeping, "PID 1 waits for what it has swept");
    require(supervisor.phase() == stopping, "a stop waits for its processes");
    require(is_anyone_left() || is_any_helper_left(), "a stop goes on when its processes are gone");
}

void Invariants::check_states(Supervisor const& supervisor) const {
    std::uint32_t alive = 0;
    for (std::size_t at = 0; at < programs_.size(); ++at)
        require(supervisor.size(ProgramId(at)) == programs_[at].records.size(), "every process has a state",
                first_of(at));
    for_each([&](Program const& program, Record const& record, ProcessId id) {
        State const state = supervisor.state(id);
        if (state != record.state) {
            throw Violation{"process " + text(id) + " is known to be " + text(record.state) + ", not " + text(state)};
        }
        alive += is_there(record) && !program.policy.auxiliary ? 1U : 0U;
        Child const* const child = kernel_.find(id);
        require(!record.pid || (child && child->pid == *record.pid), "who lives is known", id);
        bool const has_started = state == State::activating || state == State::up;
        require(!record.is_awaited || !child, "who is awaited is not there", id);
        require(!has_started || record.is_awaited || child->has_executed, "nothing has started before its execve", id);
        if (is_wanted(program, id.number)) {
            bool const may_be_down = program.policy.kind == ProgramKind::scheduled;
            require(state != State::down || may_be_down, "what is wanted is never forgotten", id);
            require(state != State::waiting || !may_start(program, id.number), "what may start starts", id);
        } else {
            bool const waits = state == State::waiting || state == State::backoff || state == State::held ||
                               state == State::done || state == State::failed;
            bool const is_late = is_stopping() ? program.is_turn : is_to_be_undone_now(program, record, id);
            bool const has_its_turn_yet = !is_late && has_to_be_undone(program.policy, record);
            require(!waits || has_its_turn_yet, "what is not wanted waits for nothing", id);
            bool const runs_on = state == State::executing || state == State::activating || state == State::up;
            require(!runs_on || (is_stopping() && !program.is_turn), "what is not wanted is stopped at once", id);
        }
        if (stops_asked_ > 1) require(!is_there(record) || state == State::killing, "a second stop kills at once", id);
        check_view(supervisor.view(id), program, record, id);
    });
    require(supervisor.running_count() == alive, "running_count() counts");
}

void Invariants::check_view(launcher::ProcessView const& view, Program const& program, Record const& record,
                            ProcessId id) {
    require(view.state == record.state && view.pid == record.pid, "a view shows who lives", id);
    require(!record.pid || view.since == record.started, "a view shows since when", id);
    require(view.signal_error == (record.pid ? record.signal_error : 0), "a view shows that a signal failed", id);
    require(view.bad_probes == worst_check(record) || !record.pid, "a view shows the bad probes", id);
    require(view.failures == record.failures, "a view shows the failures", id);
    require(view.last_status == record.last_status, "a view shows the last status", id);
    require(view.last_error == record.last_error, "a view shows why the last start failed", id);
    require(view.last_end.value_or(TimePoint{}) == record.last_end, "a view shows the last end", id);
    bool const serves = record.state == State::up && !is_unwell(program.policy, record);
    require(view.is_ready == (serves || record.state == State::done), "a view shows readiness", id);
}

void Invariants::check_programs(Supervisor const& supervisor) const {
    bool is_all_ready = true;
    for (std::size_t at = 0; at < programs_.size(); ++at) {
        Program const& program = programs_[at];
        bool has_helpers = false;
        for (Record const& record : program.records)
            has_helpers = has_helpers || std::ranges::count(record.helpers, Running::no) <
                                             static_cast<std::ptrdiff_t>(launcher::helper_kinds);
        require(supervisor.is_idle(ProgramId(at)) == (!program.is_configured && is_down(program) && !has_helpers),
                "a program is idle when nothing of it is left", first_of(at));
        if (is_stopping()) continue;
        require(supervisor.is_ready(ProgramId(at)) == is_ready(ProgramId(at)), "a program is ready when all of it is",
                first_of(at));
        require(supervisor.is_settled(ProgramId(at)) == is_settled(ProgramId(at)),
                "a program is settled when all of it is", first_of(at));
        bool const is_put_aside = program.is_held && !program.policy.auto_start;
        is_all_ready = is_all_ready && (program.policy.auxiliary || is_put_aside || is_ready(ProgramId(at)));
        if (program.is_configured)
            require(supervisor.policy(ProgramId(at)) == program.policy, "the policy is the accepted one", first_of(at));
    }
    if (!is_stopping()) require(supervisor.is_ready() == is_all_ready, "all is ready when all programs are");
}

/// The books about helpers, theirs and the kernel's. A RunHelper of this step has not reached the kernel yet.
void Invariants::check_helpers() const {
    std::size_t known = 0;
    for_each([&](Program const&, Record const& record, ProcessId id) {
        for (std::size_t helper = 0; helper < launcher::helper_kinds; ++helper) {
            if (record.helpers[helper] == Running::no) continue;
            ++known;
            bool const is_new = std::ranges::any_of(*actions_, [&](Action const& action) {
                return action == Action{action::RunHelper{id, static_cast<Helper>(helper)}};
            });
            require(is_new || kernel_.find(id, static_cast<Helper>(helper)), "what is known to run runs", id);
        }
    });
    require(known >= kernel_.commands().size(), "no helper is forgotten");
}

void Invariants::check_deadline(std::optional<TimePoint> deadline) const {
    bool anyone_waits = false;
    auto const waits = [&](TimePoint due, ProcessId id) {
        if (due == never) return;
        anyone_waits = true;
        // One that has passed means at once.
        if (!deadline || *deadline > std::max(due, now_))
            throw Violation{"the deadline is not after anybody's: process " + text(id) + ", due at " + text(due)};
    };
    for_each([&](Program const&, Record const& record, ProcessId id) {
        waits(record.due, id);
        waits(record.probe, id);
        for (Check const& check : record.checks)
            waits(check.probe, id);
        waits(record.run_due, id);
    });
    if (is_stopping()) {
        waits(*stop_end(), {});
        waits(sweep_due_, {});
        for (std::size_t at = 0; last_sweep_ == 0 && at < programs_.size(); ++at) {
            if (!programs_[at].is_turn) waits(programs_[at].turn_at, first_of(at));
        }
        if (last_sweep_ == 0 && is_any_helper_wanted()) waits(latest_kill(), {});
    }
    require(anyone_waits || !deadline, "no deadline when nothing waits for time");
}

/// A deadline may be too early once, when what it was for has gone. More would be a busy loop.
void Invariants::check_wakeup(std::size_t actions, bool is_time_event, std::optional<TimePoint> deadline_before) {
    if (!is_time_event || actions > 0 || has_moved_) {
        idle_wakeups_ = 0;
    } else if (deadline_before && *deadline_before <= now_) {
        require(++idle_wakeups_ <= 1, "it does not wake up for nothing again and again");
    }
}

// At rest.

void Invariants::check_settled(Supervisor const& supervisor) const {
    bool is_watched = false;
    for_each([&](Program const& program, Record const& record, ProcessId id) {
        using enum ProcessState;
        bool const is_at_rest = record.state == down || record.state == up || record.state == done ||
                                record.state == failed || record.state == held || record.state == waiting;
        require(is_at_rest, "without failures everything comes to rest", id);
        bool const is_checked =
            std::ranges::any_of(record.checks, [](Check const& check) { return check.probe != never; });
        bool const is_timed = record.due != never || record.run_due != never || is_checked;
        is_watched = is_watched || (record.state == up && is_timed);
        for (Running const running : record.helpers)
            require(running == Running::no, "every helper ends", id);
        if (record.state != waiting) return;
        bool const is_hopeless = std::ranges::any_of(program.policy.requires_, [&](ProgramId other) {
            Program const& that = programs_[static_cast<std::size_t>(other)];
            return std::ranges::any_of(that.records, [&](Record const& r) {
                bool const is_ill = r.state == up && is_unwell(that.policy, r);  // until a check says otherwise
                return is_ill || r.state == failed || r.state == held || r.state == waiting;
            });
        });
        bool const waits_for_the_waiting = std::ranges::any_of(program.policy.after, [&](ProgramId other) {
            auto const& records = programs_[static_cast<std::size_t>(other)].records;
            return std::ranges::any_of(records, [](Record const& r) { return r.state == waiting; });
        });
        bool const is_behind = program.policy.is_sequential && id.number > ProcessNumber{1} &&
                               program.records[static_cast<std::size_t>(id.number) - 2].state == waiting;
        require(is_hopeless || waits_for_the_waiting || is_behind, "what waits misses something", id);
    });
    require(is_watched == supervisor.next_deadline().has_value(), "at rest, only who is watched waits for time");
}

std::optional<ProcessId> Invariants::awaited_main() const {
    std::optional<ProcessId> awaited;
    for_each([&](Program const& program, Record const& record, ProcessId id) {
        if (record.state == State::activating && program.policy.forks && !record.is_main_known) awaited = id;
    });
    return awaited;
}

bool Invariants::is_awaiting() const {
    bool is_any = false;
    for_each([&](Program const&, Record const& record, ProcessId) { is_any = is_any || record.is_awaited; });
    return is_any;
}

std::optional<ProcessId> Invariants::awaited_ready() const {
    std::optional<ProcessId> awaited;
    for_each([&](Program const& program, Record const& record, ProcessId id) {
        bool const is_silent = record.state == State::activating && program.policy.kind != ProgramKind::one_shot &&
                               program.policy.readiness == Readiness::notified;
        if (is_silent) awaited = id;
    });
    return awaited;
}

std::optional<ProcessId> Invariants::awaited_end() const {
    std::optional<ProcessId> awaited;
    for_each([&](Program const& program, Record const& record, ProcessId id) {
        bool const is_in_time = record.run_due != never;  // else it is stopped, and may be started again for ever
        if ((record.state == State::activating && program.policy.kind == ProgramKind::one_shot) || is_in_time)
            awaited = id;
    });
    return awaited;
}

std::vector<ProcessId> Invariants::watched() const {
    std::vector<ProcessId> watched;
    for_each([&](Program const&, Record const& record, ProcessId id) {
        if (record.state == State::up && record.due != never) watched.push_back(id);
    });
    return watched;
}

std::optional<TimePoint> Invariants::next_change() const {
    TimePoint next = never;
    for_each([&](Program const&, Record const& record, ProcessId) {
        if (record.state == State::up) return;
        next = std::min({next, record.due, record.probe, record.run_due});
    });
    if (next == never) return std::nullopt;
    return next;
}

}  // namespace triton::simulation
