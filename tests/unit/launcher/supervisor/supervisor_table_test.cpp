#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/unit/launcher/supervisor/supervisor_subject.h"

// Every state by every event, as two tables: that of the design's form, and that of programs which use everything. What
// the tests print is what they expect: for each event the state and phase after it and the time to the deadline, and
// below it the actions.

namespace triton::launcher {

namespace {

using namespace std::chrono_literals;
using simulation::text;
using State = ProcessState;
using Phase = SupervisorPhase;

constexpr process::SpawnError no_memory{process::SpawnStage::clone, ENOMEM};
constexpr process::SpawnError not_found{process::SpawnStage::execute, ENOENT};

/// How process 1 of program 0 comes into a state.
struct Row {
    char const* name;
    State state;
    Subject (*reach)();
};

struct Column {
    char const* name;
    Duration later;
    Event (*event)(Subject const&);
};

bool is_alive(State state) {
    switch (state) {
        case State::executing:
        case State::activating:
        case State::up:
        case State::draining:
        case State::pre_stop:
        case State::stopping:
        case State::killing: return true;
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

bool is_under_way(Subject const& subject, Helper helper) {
    auto const bits = subject.supervisor.state().programs.at(0).processes.at(0).helpers;
    return ((bits >> static_cast<unsigned>(helper)) & 1U) != 0;
}

/// Results come only to what was asked for, and exits only from what lives.
struct IsPossible {
    Subject const& subject;

    bool operator()(event::Spawned const&) const { return subject.state() == State::starting; }
    bool operator()(event::SpawnFailed const&) const { return subject.state() == State::starting; }
    bool operator()(event::Executed const&) const { return is_alive(subject.state()); }
    bool operator()(event::Exited const&) const { return is_alive(subject.state()); }
    bool operator()(event::NoChildLeft const&) const { return !is_alive(subject.state()); }
    bool operator()(event::HelperEnded const& event) const { return is_under_way(subject, event.helper); }
    bool operator()(event::ConfigurationAccepted const&) const { return true; }
    bool operator()(event::MainFound const&) const { return true; }
    bool operator()(event::Ready const&) const { return true; }
    bool operator()(event::WatchdogPing const&) const { return true; }
    bool operator()(event::ExtendTimeout const&) const { return true; }
    bool operator()(event::ScheduleDue const&) const { return true; }
    bool operator()(event::StopAsked const&) const { return true; }
    bool operator()(event::SignalReceived const&) const { return true; }
    bool operator()(event::Command const&) const { return true; }
    bool operator()(event::TimePassed const&) const { return true; }
    bool operator()(event::TreeEmpty const&) const { return true; }
    bool operator()(event::SignalFailed const&) const { return true; }
};

/// Which states each event was tried in.
using Visited = std::set<std::pair<State, std::size_t>>;

std::string line(Row const& row, Column const& column, Visited& visited) {
    Subject subject = row.reach();
    EXPECT_EQ(text(subject.state()), text(row.state)) << row.name;
    Event const event = column.event(subject);
    if (!std::visit(IsPossible{subject}, event)) return "";
    visited.emplace(row.state, event.index());
    subject.after(column.later).on(event);
    std::string name(column.name);
    name.resize(22, ' ');
    std::string result = "    " + name + text(subject.state());
    if (subject.supervisor.phase() != Phase::running) result += " (" + text(subject.supervisor.phase()) + ")";
    if (auto const deadline = subject.deadline()) result += ", deadline in " + text(*deadline);
    return result + "\n" + (subject.actions.empty() ? "" : "        " + subject.done() + "\n");
}

template <std::size_t rows, std::size_t columns>
std::string table(Row const (&all)[rows], Column const (&events)[columns], Visited& visited) {
    std::string text = "\n";
    for (Row const& row : all) {
        text += std::string(row.name) + "\n";
        for (Column const& column : events)
            text += line(row, column, visited);
    }
    return text;
}

// The design's form.

Row const design_rows[] = {
    {"down", State::down,
     [] {
         Subject subject = all_up(1);
         subject.configuration(0).exited(first, 0);
         return subject;
     }},
    {"starting", State::starting,
     [] {
         Subject subject(plain());
         subject.configuration(1);
         return subject;
     }},
    {"starting, not wanted", State::starting,
     [] {
         Subject subject(plain());
         subject.configuration(1).configuration(0);
         return subject;
     }},
    {"executing", State::executing,
     [] {
         Subject subject(plain());
         subject.configuration(1).cloned(first);
         return subject;
     }},
    {"up", State::up, [] { return all_up(1); }},
    {"stopping", State::stopping,
     [] {
         Subject subject = all_up(1);
         subject.configuration(0);
         return subject;
     }},
    {"stopping, wanted again", State::stopping,
     [] {
         Subject subject = all_up(1);
         subject.configuration(0).configuration(1);
         return subject;
     }},
    {"killing", State::killing,
     [] {
         Subject subject = all_up(1);
         subject.configuration(0).after(10s).time();
         return subject;
     }},
    {"backoff", State::backoff,
     [] {
         Subject subject(plain());
         subject.configuration(1).spawned(first).exited(first, 1).spawned(first).exited(first, 1);
         return subject;
     }},
    {"starting in a stop", State::starting,
     [] {
         Subject subject(plain());
         subject.configuration(1).stop();
         return subject;
     }},
    {"stopping in a stop", State::stopping,
     [] {
         Subject subject = all_up(1);
         subject.stop();
         return subject;
     }},
    {"killing in a stop", State::killing,
     [] {
         Subject subject = all_up(1);
         subject.stop().stop();
         return subject;
     }},
    {"swept (PID 1)", State::down,
     [] {
         Subject subject = all_up(1, pid_1());
         subject.stop().exited(first, 0);
         return subject;
     }},
    {"finished", State::down,
     [] {
         Subject subject = all_up(1);
         subject.stop().exited(first, 0);
         return subject;
     }},
};

Event of_count(std::uint32_t count) {
    auto specs = std::make_shared<std::vector<ProgramSpec>>(1);
    specs->front().policy = plain().program;
    specs->front().policy.count = count;
    return event::ConfigurationAccepted{specs};
}

Column const design_columns[] = {
    {"Configuration 1", 0s, [](Subject const&) { return of_count(1); }},
    {"Configuration 0", 0s, [](Subject const&) { return of_count(0); }},
    {"Spawned", 0s, [](Subject const&) -> Event { return event::Spawned{first, Pid{200}}; }},
    {"SpawnFailed", 0s, [](Subject const&) -> Event { return event::SpawnFailed{first, no_memory}; }},
    {"Executed", 0s, [](Subject const&) -> Event { return event::Executed{first}; }},
    {"Exited well", 2s, [](Subject const&) -> Event { return event::Exited{first, 0}; }},
    {"Exited badly", 0s, [](Subject const&) -> Event { return event::Exited{first, SIGSEGV}; }},
    {"Exited before execve", 0s, [](Subject const&) -> Event { return event::Exited{first, 127 << 8, not_found}; }},
    {"StopAsked", 0s, [](Subject const&) -> Event { return event::StopAsked{}; }},
    {"Signal", 0s, [](Subject const&) -> Event { return event::SignalReceived{SIGUSR1}; }},
    {"NoChildLeft", 0s, [](Subject const&) -> Event { return event::NoChildLeft{}; }},
    {"TimePassed early", 500ms, [](Subject const&) -> Event { return event::TimePassed{}; }},
    {"TimePassed", 10s, [](Subject const&) -> Event { return event::TimePassed{}; }},
    {"TimePassed late", 1h, [](Subject const&) -> Event { return event::TimePassed{}; }},
};

constexpr char const* expected_design_table = R"(
down
    Configuration 1       starting
        Spawn 1
    Configuration 0       down
    StopAsked             down (finished)
        Finish 0
    Signal                down
    NoChildLeft           down
    TimePassed early      down
    TimePassed            down
    TimePassed late       down
starting
    Configuration 1       starting
    Configuration 0       starting
    Spawned               executing
    SpawnFailed           backoff, deadline in 0.001s
        ReportStartFailed 1, stage 0 errno 12, restart in 0.001s
    StopAsked             starting (stopping), deadline in 30s
    Signal                starting
    NoChildLeft           starting
    TimePassed early      starting
    TimePassed            starting
    TimePassed late       starting
starting, not wanted
    Configuration 1       starting
    Configuration 0       starting
    Spawned               stopping, deadline in 10s
        Signal 1, pid 200, 15 (stop); Signal 1, pid 200, 18 (forward)
    SpawnFailed           down
        ReportStartFailed 1, stage 0 errno 12, not wanted
    StopAsked             starting (stopping), deadline in 30s
    Signal                starting
    NoChildLeft           starting
    TimePassed early      starting
    TimePassed            starting
    TimePassed late       starting
executing
    Configuration 1       executing
    Configuration 0       stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    Executed              up
        ReportStarted 1, pid 100
    Exited well           starting
        ReportStarted 1, pid 100; Spawn 1; ReportExited 1, pid 100, status 0, run 2s, restart in 0s
    Exited badly          starting
        ReportStarted 1, pid 100; Spawn 1; ReportExited 1, pid 100, status 11, run 0s, restart in 0s
    Exited before execve  starting
        Spawn 1; ReportStartFailed 1, stage 19 errno 2, restart in 0s
    StopAsked             stopping (stopping), deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    Signal                executing
        Signal 1, pid 100, 10 (forward)
    TimePassed early      executing
    TimePassed            executing
    TimePassed late       executing
up
    Configuration 1       up
    Configuration 0       stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    Executed              up
    Exited well           starting
        Spawn 1; ReportExited 1, pid 100, status 0, run 2s, restart in 0s
    Exited badly          starting
        Spawn 1; ReportExited 1, pid 100, status 11, run 0s, restart in 0s
    Exited before execve  starting
        Spawn 1; ReportStartFailed 1, stage 19 errno 2, restart in 0s
    StopAsked             stopping (stopping), deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    Signal                up
        Signal 1, pid 100, 10 (forward)
    TimePassed early      up
    TimePassed            up
    TimePassed late       up
stopping
    Configuration 1       stopping, deadline in 10s
    Configuration 0       stopping, deadline in 10s
    Executed              stopping, deadline in 10s
    Exited well           down
        ReportExited 1, pid 100, status 0, run 2s, not wanted
    Exited badly          down
        ReportExited 1, pid 100, status 11, run 0s, not wanted
    Exited before execve  down
        ReportStartFailed 1, stage 19 errno 2, not wanted
    StopAsked             stopping (stopping), deadline in 10s
    Signal                stopping, deadline in 10s
        Signal 1, pid 100, 10 (forward)
    TimePassed early      stopping, deadline in 9.5s
    TimePassed            killing
        Signal 1, pid 100, 9 (kill) tree
    TimePassed late       killing
        Signal 1, pid 100, 9 (kill) tree
stopping, wanted again
    Configuration 1       stopping, deadline in 10s
    Configuration 0       stopping, deadline in 10s
    Executed              stopping, deadline in 10s
    Exited well           starting
        Spawn 1; ReportExited 1, pid 100, status 0, run 2s, restart in 0s
    Exited badly          starting
        Spawn 1; ReportExited 1, pid 100, status 11, run 0s, restart in 0s
    Exited before execve  starting
        Spawn 1; ReportStartFailed 1, stage 19 errno 2, restart in 0s
    StopAsked             stopping (stopping), deadline in 10s
    Signal                stopping, deadline in 10s
        Signal 1, pid 100, 10 (forward)
    TimePassed early      stopping, deadline in 9.5s
    TimePassed            killing
        Signal 1, pid 100, 9 (kill) tree
    TimePassed late       killing
        Signal 1, pid 100, 9 (kill) tree
killing
    Configuration 1       killing
    Configuration 0       killing
    Executed              killing
    Exited well           down
        ReportExited 1, pid 100, status 0, run 12s, not wanted
    Exited badly          down
        ReportExited 1, pid 100, status 11, run 10s, not wanted
    Exited before execve  down
        ReportStartFailed 1, stage 19 errno 2, not wanted
    StopAsked             killing (stopping), deadline in 30s
    Signal                killing
        Signal 1, pid 100, 10 (forward)
    TimePassed early      killing
    TimePassed            killing
    TimePassed late       killing
backoff
    Configuration 1       starting
        Spawn 1
    Configuration 0       down
    StopAsked             down (finished)
        Finish 0
    Signal                backoff, deadline in 1s
    NoChildLeft           backoff, deadline in 1s
    TimePassed early      backoff, deadline in 0.5s
    TimePassed            starting
        Spawn 1
    TimePassed late       starting
        Spawn 1
starting in a stop
    Configuration 1       starting (stopping), deadline in 30s
    Configuration 0       starting (stopping), deadline in 30s
    Spawned               stopping (stopping), deadline in 10s
        Signal 1, pid 200, 15 (stop); Signal 1, pid 200, 18 (forward)
    SpawnFailed           down (finished)
        ReportStartFailed 1, stage 0 errno 12, not wanted; Finish 0
    StopAsked             starting (stopping), deadline in 30s
    Signal                starting (stopping), deadline in 30s
    NoChildLeft           starting (stopping), deadline in 30s
    TimePassed early      starting (stopping), deadline in 29.5s
    TimePassed            starting (stopping), deadline in 20s
    TimePassed late       starting (finished)
        Finish 1
stopping in a stop
    Configuration 1       stopping (stopping), deadline in 10s
    Configuration 0       stopping (stopping), deadline in 10s
    Executed              stopping (stopping), deadline in 10s
    Exited well           down (finished)
        ReportExited 1, pid 100, status 0, run 2s, not wanted; Finish 0
    Exited badly          down (finished)
        ReportExited 1, pid 100, status 11, run 0s, not wanted; Finish 0
    Exited before execve  down (finished)
        ReportStartFailed 1, stage 19 errno 2, not wanted; Finish 0
    StopAsked             killing (stopping), deadline in 10s
        Signal 1, pid 100, 9 (kill) tree
    Signal                stopping (stopping), deadline in 10s
        Signal 1, pid 100, 10 (forward)
    TimePassed early      stopping (stopping), deadline in 9.5s
    TimePassed            killing (stopping), deadline in 20s
        Signal 1, pid 100, 9 (kill) tree
    TimePassed late       killing (finished)
        Signal 1, pid 100, 9 (kill) tree; ReportLeft 1, pid 100; Finish 1
killing in a stop
    Configuration 1       killing (stopping), deadline in 10s
    Configuration 0       killing (stopping), deadline in 10s
    Executed              killing (stopping), deadline in 10s
    Exited well           down (finished)
        ReportExited 1, pid 100, status 0, run 2s, not wanted; Finish 0
    Exited badly          down (finished)
        ReportExited 1, pid 100, status 11, run 0s, not wanted; Finish 0
    Exited before execve  down (finished)
        ReportStartFailed 1, stage 19 errno 2, not wanted; Finish 0
    StopAsked             killing (stopping), deadline in 10s
    Signal                killing (stopping), deadline in 10s
        Signal 1, pid 100, 10 (forward)
    TimePassed early      killing (stopping), deadline in 9.5s
    TimePassed            killing (stopping), deadline in 20s
    TimePassed late       killing (finished)
        ReportLeft 1, pid 100; Finish 1
swept (PID 1)
    Configuration 1       down (sweeping), deadline in 10s
    Configuration 0       down (sweeping), deadline in 10s
    StopAsked             down (sweeping), deadline in 30s
        Sweep 9
    Signal                down (sweeping), deadline in 10s
    NoChildLeft           down (finished)
        Finish 0
    TimePassed early      down (sweeping), deadline in 9.5s
    TimePassed            down (sweeping), deadline in 20s
        Sweep 9
    TimePassed late       down (finished)
        Finish 1
finished
    Configuration 1       down (finished)
    Configuration 0       down (finished)
    StopAsked             down (finished)
    Signal                down (finished)
    NoChildLeft           down (finished)
    TimePassed early      down (finished)
    TimePassed            down (finished)
    TimePassed late       down (finished)
)";

// Programs.

/// A service that uses everything.
ProgramPolicy full_service() {
    ProgramPolicy policy = plain().program;
    policy.restart = Restart::on_failure;
    policy.start_limit = StartLimit{3, 60s, std::nullopt};
    policy.drain = 1s;
    policy.has_pre_stop = true;
    policy.pre_stop_timeout = 5s;
    policy.on_change = OnChange::signal;
    policy.has_on_failure = true;
    policy.readiness = Readiness::notified;
    policy.start_timeout = 30s;
    policy.watchdog = 20s;
    policy.checks = {Health{.interval = 15s, .retries = 1}};
    return policy;
}

ProgramPolicy full_of_kind(ProgramKind kind, Restart restart = Restart::never) {
    ProgramPolicy policy = plain().program;
    policy.kind = kind;
    policy.restart = restart;
    policy.has_on_failure = true;
    return policy;
}

/// Program 1 of some: so that the end of program 0 is not that of the container.
ProgramPolicy another() { return plain().program; }

ProgramPolicy none() {
    ProgramPolicy policy = another();
    policy.count = 0;
    return policy;
}

Subject with(ProgramPolicy const& policy, ProgramPolicy const& second = another()) {
    Subject subject(plain());
    subject.programs({policy, second});
    return subject;
}

/// With its second program up, too.
Subject running(ProgramPolicy const& policy) {
    Subject subject = with(policy);
    subject.spawned(first).spawned(process(1, 1));
    return subject;
}

Subject service_up() {
    Subject subject = running(full_service());
    subject.ready(first);
    return subject;
}

/// Its health is being looked at.
Subject probing() {
    Subject subject = service_up();
    subject.after(15s).time();
    return subject;
}

/// It has every reason to end the container, but it is not for that.
ProgramPolicy full_auxiliary() {
    ProgramPolicy policy = full_service();
    policy.auxiliary = true;
    policy.critical = true;
    policy.start_limit = StartLimit{1, 60s, 9};
    policy.checks.front().action = HealthAction::exit;
    return policy;
}

/// Its health is being looked at, and the other program is up.
Subject auxiliary_up() {
    Subject subject = running(full_auxiliary());
    subject.ready(first).after(15s).time();
    return subject;
}

constexpr ProcessId other{ProgramId{1}, ProcessNumber{1}};

/// A one-shot that has done something.
ProgramPolicy doing() {
    ProgramPolicy policy = full_of_kind(ProgramKind::one_shot);
    policy.has_on_stop = true;
    policy.on_stop_timeout = 3s;
    policy.has_on_success = true;
    policy.run_timeout = 7s;
    return policy;
}

/// It has, and what is to be done about that is done.
Subject done() {
    Subject subject = running(doing());
    subject.exited(first, 0).helper(first, Helper::on_success);
    return subject;
}

/// With three signals, of which it has got the second.
Subject in_second_step() {
    ProgramPolicy policy = another();
    policy.stop_steps = {{SIGTERM, 2s}, {SIGINT, 4s}, {SIGQUIT, 1s}};
    policy.stop_timeout = 7s;
    Subject subject = running(policy);
    subject.command(event::Verb::restart).after(2s).time();
    return subject;
}

Row const program_rows[] = {
    {"down, scheduled", State::down, [] { return with(full_of_kind(ProgramKind::scheduled)); }},
    {"waiting", State::waiting,
     [] {
         ProgramPolicy policy = full_service();
         policy.requires_ = {ProgramId{1}};
         return with(policy);
     }},
    {"starting", State::starting, [] { return with(full_service()); }},
    {"starting, to be held", State::starting,
     [] {
         Subject subject = with(full_service());
         subject.command(event::Verb::stop);
         return subject;
     }},
    {"starting, the last probe not yet gone", State::starting,
     [] {
         Subject subject = probing();
         subject.exited(first, SIGSEGV);
         return subject;
     }},
    {"executing", State::executing,
     [] {
         Subject subject = with(full_service());
         subject.cloned(first).spawned(other);
         return subject;
     }},
    {"executing, probed", State::executing,
     [] {
         ProgramPolicy policy = full_service();
         policy.readiness = Readiness::probed;
         Subject subject = with(policy);
         subject.cloned(first).spawned(other);
         return subject;
     }},
    {"executing in a stop", State::executing,
     [] {
         ProgramPolicy after = full_service();
         after.after = {ProgramId{0}};
         Subject subject = with(full_service(), after);
         subject.cloned(first).executed(first).ready(first).cloned(other).exited(first, SIGSEGV).cloned(first).stop();
         return subject;
     }},
    {"activating", State::activating, [] { return running(full_service()); }},
    {"activating, probed", State::activating,
     [] {
         ProgramPolicy policy = full_service();
         policy.readiness = Readiness::probed;
         return running(policy);
     }},
    {"activating, one-shot", State::activating, [] { return running(full_of_kind(ProgramKind::one_shot)); }},
    {"up", State::up, [] { return service_up(); }},
    {"up, probed", State::up, [] { return probing(); }},
    {"up, scheduled", State::up,
     [] {
         Subject subject = with(full_of_kind(ProgramKind::scheduled));
         subject.on(event::ScheduleDue{ProgramId{0}}).spawned(first);
         return subject;
     }},
    {"draining to be held, the last probe not yet gone", State::draining,
     [] {
         Subject subject = probing();
         subject.command(event::Verb::stop);
         return subject;
     }},
    {"pre_stop to restart", State::pre_stop,
     [] {
         Subject subject = service_up();
         subject.command(event::Verb::restart).after(1s).time();
         return subject;
     }},
    {"stopping, not wanted", State::stopping,
     [] {
         Subject subject = service_up();
         subject.programs({}).after(1s).time().helper(first, Helper::pre_stop);
         return subject;
     }},
    {"stopping, for its watchdog", State::stopping,
     [] {
         Subject subject = probing();
         subject.after(5s).time();
         return subject;
     }},
    {"killing, for its start timeout", State::killing,
     [] {
         ProgramPolicy policy = full_service();
         policy.readiness = Readiness::probed;
         Subject subject = running(policy);
         subject.after(30s).time();
         return subject;
     }},
    {"backoff, the last probe not yet gone", State::backoff,
     [] {
         Subject subject = service_up();
         subject.exited(first, SIGSEGV).spawned(first).ready(first).after(15s).time().exited(first, SIGSEGV);
         return subject;
     }},
    {"done", State::done,
     [] {
         Subject subject = service_up();
         subject.exited(first, 0);
         return subject;
     }},
    {"failed", State::failed,
     [] {
         Subject subject = running(full_of_kind(ProgramKind::one_shot));
         subject.exited(first, 1 << 8);
         return subject;
     }},
    {"failed, scheduled", State::failed,
     [] {
         Subject subject = with(full_of_kind(ProgramKind::scheduled));
         subject.on(event::ScheduleDue{ProgramId{0}}).spawned(first).exited(first, 1 << 8);
         return subject;
     }},
    {"held", State::held,
     [] {
         Subject subject = with(full_service());
         subject.command(event::Verb::stop).on(event::SpawnFailed{first, no_memory});
         return subject;
     }},
    {"up in a stop, not its turn yet", State::up,
     [] {
         ProgramPolicy policy = another();
         policy.requires_ = {ProgramId{0}};
         Subject subject = with(full_service(), policy);
         subject.spawned(first).ready(first).spawned(other).stop();
         return subject;
     }},
    {"draining in a stop", State::draining,
     [] {
         Subject subject = service_up();
         subject.stop();
         return subject;
     }},
    {"pre_stop in a stop", State::pre_stop,
     [] {
         Subject subject = service_up();
         subject.stop().after(1s).time();
         return subject;
     }},
    {"failed before a stop", State::down,
     [] {
         Subject subject = running(full_of_kind(ProgramKind::one_shot));
         subject.exited(first, 1 << 8).stop().exited(other, 0);
         return subject;
     }},
    {"activating, one-shot with a time limit", State::activating, [] { return running(doing()); }},
    {"done, with something to undo", State::done, done},
    {"undoing, to be held", State::undoing,
     [] {
         Subject subject = done();
         subject.command(event::Verb::stop);
         return subject;
     }},
    {"undoing, not wanted", State::undoing,
     [] {
         Subject subject = done();
         subject.programs({});
         return subject;
     }},
    {"undoing in a stop", State::undoing,
     [] {
         Subject subject = done();
         subject.stop();
         return subject;
     }},
    {"done in a stop, not its turn yet", State::done,
     [] {
         ProgramPolicy policy = another();
         policy.requires_ = {ProgramId{0}};
         Subject subject = with(doing(), policy);
         subject.spawned(first).exited(first, 0).helper(first, Helper::on_success).spawned(other).stop();
         return subject;
     }},
    {"stopping, the second signal", State::stopping, in_second_step},
    {"stopping, the second signal, in a stop", State::stopping,
     [] {
         Subject subject = in_second_step();
         subject.stop();
         return subject;
     }},
    {"up, scheduled, one run missed", State::up,
     [] {
         ProgramPolicy policy = full_of_kind(ProgramKind::scheduled);
         policy.makes_up = true;
         Subject subject = with(policy);
         subject.on(event::ScheduleDue{ProgramId{0}}).spawned(first).on(event::ScheduleDue{ProgramId{0}});
         return subject;
     }},
    {"up, auxiliary", State::up, auxiliary_up},
    {"up, auxiliary, and nothing else is to run", State::up,
     [] {
         Subject subject = auxiliary_up();
         subject.programs({full_auxiliary(), none()}, false).exited(other, 0);
         return subject;
     }},
    {"failed, auxiliary, and nothing else is to run", State::failed,
     [] {
         Subject subject = with(full_auxiliary(), none());
         subject.on(event::SpawnFailed{first, not_found});
         return subject;
     }},
    {"up in a stop, auxiliary", State::up,
     [] {
         Subject subject = auxiliary_up();
         subject.stop();
         return subject;
     }},
    {"draining in a stop, auxiliary, the others down", State::draining,
     [] {
         Subject subject = auxiliary_up();
         subject.stop().exited(other, 0);
         return subject;
     }},
};

/// The configuration that it has, again.
Event again(Subject const& subject, bool has_changed) {
    auto specs = std::make_shared<std::vector<ProgramSpec>>();
    for (ProgramRecord const& program : subject.supervisor.state().programs)
        specs->push_back({ProgramId{static_cast<std::uint32_t>(specs->size())}, program.policy, has_changed});
    return event::ConfigurationAccepted{specs};
}

template <event::Verb verb>
Event command(Subject const&) {
    return event::Command{verb, ProgramId{0}, ProcessNumber{1}, SIGUSR2};
}

template <Helper helper, bool ok>
Event helper_ended(Subject const&) {
    return event::HelperEnded{first, helper, ok};
}

Column const program_columns[] = {
    {"Unchanged", 0s, [](Subject const& subject) { return again(subject, false); }},
    {"Changed", 0s, [](Subject const& subject) { return again(subject, true); }},
    {"Not configured", 0s,
     [](Subject const&) -> Event {
         return event::ConfigurationAccepted{std::make_shared<std::vector<ProgramSpec> const>()};
     }},
    {"Spawned", 0s, [](Subject const&) -> Event { return event::Spawned{first, Pid{200}}; }},
    {"SpawnFailed", 0s, [](Subject const&) -> Event { return event::SpawnFailed{first, no_memory}; }},
    {"Executed", 1s, [](Subject const&) -> Event { return event::Executed{first}; }},
    {"Exited well", 2s, [](Subject const&) -> Event { return event::Exited{first, 0}; }},
    {"Exited badly", 0s, [](Subject const&) -> Event { return event::Exited{first, SIGKILL, {}, true}; }},
    {"Ready", 1s, [](Subject const&) -> Event { return event::Ready{first}; }},
    {"WatchdogPing", 1s, [](Subject const&) -> Event { return event::WatchdogPing{first}; }},
    {"ExtendTimeout", 0s, [](Subject const&) -> Event { return event::ExtendTimeout{first, 1min}; }},
    {"pre_stop ended", 0s, helper_ended<Helper::pre_stop, true>},
    {"pre_stop failed", 0s, helper_ended<Helper::pre_stop, false>},
    {"on_failure ended", 0s, helper_ended<Helper::on_failure, true>},
    {"on_success ended", 0s, helper_ended<Helper::on_success, true>},
    {"on_stop ended", 0s, helper_ended<Helper::on_stop, true>},
    {"readiness ended", 0s, helper_ended<Helper::readiness, true>},
    {"readiness failed", 0s, helper_ended<Helper::readiness, false>},
    {"health ended", 0s, helper_ended<Helper::health, true>},
    {"health failed", 0s, helper_ended<Helper::health, false>},
    {"ScheduleDue", 0s, [](Subject const&) -> Event { return event::ScheduleDue{ProgramId{0}}; }},
    {"StopAsked", 0s, [](Subject const&) -> Event { return event::StopAsked{}; }},
    {"Signal", 0s, [](Subject const&) -> Event { return event::SignalReceived{SIGUSR1}; }},
    {"start", 0s, command<event::Verb::start>},
    {"stop", 0s, command<event::Verb::stop>},
    {"restart", 0s, command<event::Verb::restart>},
    {"signal", 0s, command<event::Verb::signal>},
    {"NoChildLeft", 0s, [](Subject const&) -> Event { return event::NoChildLeft{}; }},
    {"TimePassed early", 500ms, [](Subject const&) -> Event { return event::TimePassed{}; }},
    {"TimePassed", 20s, [](Subject const&) -> Event { return event::TimePassed{}; }},
};

constexpr char const* expected_program_table = R"(
down, scheduled
    Unchanged             down
    Changed               down
    Not configured        down
    Ready                 down
    WatchdogPing          down
    ExtendTimeout         down
    ScheduleDue           starting
        Spawn 1
    StopAsked             down (stopping), deadline in 30s
    Signal                down
    start                 starting
        Spawn 1
    stop                  held
    restart               starting
        Spawn 1
    signal                down
    NoChildLeft           down
    TimePassed early      down
    TimePassed            down
waiting
    Unchanged             waiting
    Changed               waiting
    Not configured        down
    Ready                 waiting
    WatchdogPing          waiting
    ExtendTimeout         waiting
    ScheduleDue           waiting
    StopAsked             down (stopping), deadline in 30s
    Signal                waiting
    start                 waiting
    stop                  held
    restart               waiting
    signal                waiting
    NoChildLeft           waiting
    TimePassed early      waiting
    TimePassed            waiting
starting
    Unchanged             starting
    Changed               starting
    Not configured        starting
    Spawned               executing, deadline in 30s
    SpawnFailed           backoff, deadline in 0.001s
        ReportStartFailed 1, stage 0 errno 12, restart in 0.001s
    Ready                 starting
    WatchdogPing          starting
    ExtendTimeout         starting
    ScheduleDue           starting
    StopAsked             starting (stopping), deadline in 30s
    Signal                starting
    start                 starting
    stop                  starting
    restart               starting
    signal                starting
    NoChildLeft           starting
    TimePassed early      starting
    TimePassed            starting
starting, to be held
    Unchanged             starting
    Changed               starting
    Not configured        starting
    Spawned               draining, deadline in 1s
    SpawnFailed           held
        ReportStartFailed 1, stage 0 errno 12, not wanted
    Ready                 starting
    WatchdogPing          starting
    ExtendTimeout         starting
    ScheduleDue           starting
    StopAsked             starting (stopping), deadline in 30s
    Signal                starting
    start                 starting
    stop                  starting
    restart               starting
    signal                starting
    NoChildLeft           starting
    TimePassed early      starting
    TimePassed            starting
starting, the last probe not yet gone
    Unchanged             starting
    Changed               starting
    Not configured        starting, deadline in 10s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Spawned               executing, deadline in 30s
    SpawnFailed           backoff, deadline in 1s
        ReportStartFailed 1, stage 0 errno 12, restart in 1s
    Ready                 starting
    WatchdogPing          starting
    ExtendTimeout         starting
    health ended          starting
    health failed         starting
    ScheduleDue           starting
    StopAsked             starting (stopping), deadline in 5s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                starting
        Signal 1:1, pid 200, 10 (forward)
    start                 starting
    stop                  starting
    restart               starting
    signal                starting
    NoChildLeft           starting
    TimePassed early      starting
    TimePassed            starting
executing
    Unchanged             executing, deadline in 30s
    Changed               executing, deadline in 30s
    Not configured        draining, deadline in 1s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              activating, deadline in 29s
        ReportStarted 1, pid 100
    Exited well           starting
        ReportStarted 1, pid 100; Spawn 1; ReportExited 1, pid 100, status 0, run 2s, restart in 0s
    Exited badly          starting
        ReportStarted 1, pid 100; Spawn 1; ReportExited 1, pid 100, status 9, run 0s, restart in 0s, oom
    Ready                 up, deadline in 15s
        ReportStarted 1, pid 100; ReportReady 1, after 1s
    WatchdogPing          executing, deadline in 29s
    ExtendTimeout         executing, deadline in 60s
    ScheduleDue           executing, deadline in 30s
    StopAsked             draining (stopping), deadline in 1s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                executing, deadline in 30s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 executing, deadline in 30s
    stop                  draining, deadline in 1s
    restart               draining, deadline in 1s
    signal                executing, deadline in 30s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      executing, deadline in 29.5s
    TimePassed            executing, deadline in 10s
executing, probed
    Unchanged             executing, deadline in 30s
    Changed               executing, deadline in 30s
    Not configured        draining, deadline in 1s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              activating, deadline in 29s
        ReportStarted 1, pid 100; RunHelper 1 readiness
    Exited well           starting
        ReportStarted 1, pid 100; Spawn 1; ReportExited 1, pid 100, status 0, run 2s, restart in 0s
    Exited badly          starting
        ReportStarted 1, pid 100; Spawn 1; ReportExited 1, pid 100, status 9, run 0s, restart in 0s, oom
    Ready                 activating, deadline in 29s
        ReportStarted 1, pid 100; RunHelper 1 readiness
    WatchdogPing          executing, deadline in 29s
    ExtendTimeout         executing, deadline in 60s
    ScheduleDue           executing, deadline in 30s
    StopAsked             draining (stopping), deadline in 1s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                executing, deadline in 30s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 executing, deadline in 30s
    stop                  draining, deadline in 1s
    restart               draining, deadline in 1s
    signal                executing, deadline in 30s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      executing, deadline in 29.5s
    TimePassed            executing, deadline in 10s
executing in a stop
    Unchanged             executing (stopping), deadline in 1s
    Changed               executing (stopping), deadline in 1s
    Not configured        executing (stopping), deadline in 1s
    Executed              activating (stopping), deadline in 0s
        ReportStarted 1, pid 100
    Exited well           down (stopping), deadline in -1s
        ReportStarted 1, pid 100; ReportExited 1, pid 100, status 0, run 2s, not wanted
    Exited badly          down (stopping), deadline in 1s
        ReportStarted 1, pid 100; ReportExited 1, pid 100, status 9, run 0s, not wanted, oom
    Ready                 executing (stopping), deadline in 0s
    WatchdogPing          executing (stopping), deadline in 0s
    ExtendTimeout         executing (stopping), deadline in 1s
    ScheduleDue           executing (stopping), deadline in 1s
    StopAsked             killing (stopping), deadline in 1s
        Signal 1, pid 100, 9 (kill) tree; Signal 1:1, pid 200, 9 (kill) tree
    Signal                executing (stopping), deadline in 1s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 executing (stopping), deadline in 1s
    stop                  executing (stopping), deadline in 1s
    restart               executing (stopping), deadline in 1s
    signal                executing (stopping), deadline in 1s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      executing (stopping), deadline in 0.5s
    TimePassed            draining (stopping), deadline in 0.25s
        RunHelper 1:1 pre_stop
activating
    Unchanged             activating, deadline in 30s
    Changed               activating, deadline in 30s
    Not configured        draining, deadline in 1s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              activating, deadline in 29s
    Exited well           starting
        Spawn 1; ReportExited 1, pid 100, status 0, run 2s, restart in 0s
    Exited badly          starting
        Spawn 1; ReportExited 1, pid 100, status 9, run 0s, restart in 0s, oom
    Ready                 up, deadline in 15s
        ReportReady 1, after 1s
    WatchdogPing          activating, deadline in 29s
    ExtendTimeout         activating, deadline in 60s
    ScheduleDue           activating, deadline in 30s
    StopAsked             draining (stopping), deadline in 1s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                activating, deadline in 30s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 activating, deadline in 30s
    stop                  draining, deadline in 1s
    restart               draining, deadline in 1s
    signal                activating, deadline in 30s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      activating, deadline in 29.5s
    TimePassed            activating, deadline in 10s
activating, probed
    Unchanged             activating, deadline in 30s
    Changed               activating, deadline in 30s
    Not configured        draining, deadline in 1s
        CancelHelper 1 readiness; Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              activating, deadline in 29s
    Exited well           starting
        CancelHelper 1 readiness; Spawn 1; ReportExited 1, pid 100, status 0, run 2s, restart in 0s
    Exited badly          starting
        CancelHelper 1 readiness; Spawn 1; ReportExited 1, pid 100, status 9, run 0s, restart in 0s, oom
    Ready                 activating, deadline in 29s
    WatchdogPing          activating, deadline in 29s
    ExtendTimeout         activating, deadline in 60s
    readiness ended       up, deadline in 15s
        ReportReady 1, after 0s
    readiness failed      activating, deadline in 1s
    ScheduleDue           activating, deadline in 30s
    StopAsked             draining (stopping), deadline in 1s
        CancelHelper 1 readiness; Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                activating, deadline in 30s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 activating, deadline in 30s
    stop                  draining, deadline in 1s
        CancelHelper 1 readiness
    restart               draining, deadline in 1s
        CancelHelper 1 readiness
    signal                activating, deadline in 30s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      activating, deadline in 29.5s
    TimePassed            activating, deadline in 10s
activating, one-shot
    Unchanged             activating
    Changed               activating
    Not configured        stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              activating
    Exited well           done
        ReportExited 1, pid 100, status 0, run 2s, not wanted
    Exited badly          failed
        RunHelper 1 on_failure; ReportExited 1, pid 100, status 9, run 0s, not wanted, oom
    Ready                 activating
    WatchdogPing          activating
    ExtendTimeout         activating
    ScheduleDue           activating
    StopAsked             stopping (stopping), deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                activating
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 activating
    stop                  stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    restart               stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    signal                activating
        Signal 1, pid 100, 12 (asked)
    TimePassed early      activating
    TimePassed            activating
up
    Unchanged             up, deadline in 15s
    Changed               up, deadline in 15s
        Signal 1, pid 100, 1 (reload)
    Not configured        draining, deadline in 1s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              up, deadline in 14s
    Exited well           done
        ReportExited 1, pid 100, status 0, run 2s, not wanted
    Exited badly          starting
        Spawn 1; ReportExited 1, pid 100, status 9, run 0s, restart in 0s, oom
    Ready                 up, deadline in 14s
    WatchdogPing          up, deadline in 14s
    ExtendTimeout         up, deadline in 15s
    ScheduleDue           up, deadline in 15s
    StopAsked             draining (stopping), deadline in 1s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                up, deadline in 15s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 up, deadline in 15s
    stop                  draining, deadline in 1s
    restart               draining, deadline in 1s
    signal                up, deadline in 15s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      up, deadline in 14.5s
    TimePassed            stopping, deadline in 10s
        Signal 1, pid 100, 6 (watchdog); Signal 1, pid 100, 18 (forward); ReportTimedOut 1 watchdog
up, probed
    Unchanged             up, deadline in 5s
    Changed               up, deadline in 5s
        Signal 1, pid 100, 1 (reload)
    Not configured        draining, deadline in 1s
        CancelHelper 1 health; Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              up, deadline in 4s
    Exited well           done
        CancelHelper 1 health; ReportExited 1, pid 100, status 0, run 17s, not wanted
    Exited badly          starting
        CancelHelper 1 health; Spawn 1; ReportExited 1, pid 100, status 9, run 15s, restart in 0s, oom
    Ready                 up, deadline in 4s
    WatchdogPing          up, deadline in 20s
    ExtendTimeout         up, deadline in 5s
    health ended          up, deadline in 5s
    health failed         draining, deadline in 1s
        ReportUnhealthy 1, failures 1, restart
    ScheduleDue           up, deadline in 5s
    StopAsked             draining (stopping), deadline in 1s
        CancelHelper 1 health; Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                up, deadline in 5s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 up, deadline in 5s
    stop                  draining, deadline in 1s
        CancelHelper 1 health
    restart               draining, deadline in 1s
        CancelHelper 1 health
    signal                up, deadline in 5s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      up, deadline in 4.5s
    TimePassed            stopping, deadline in 10s
        CancelHelper 1 health; Signal 1, pid 100, 6 (watchdog); Signal 1, pid 100, 18 (forward); ReportTimedOut 1 watchdog
up, scheduled
    Unchanged             up
    Changed               up
    Not configured        stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    Executed              up
    Exited well           done
        ReportExited 1, pid 100, status 0, run 2s, not wanted
    Exited badly          failed
        RunHelper 1 on_failure; ReportExited 1, pid 100, status 9, run 0s, not wanted, oom
    Ready                 up
    WatchdogPing          up
    ExtendTimeout         up
    ScheduleDue           up
        ReportSkipped 0
    StopAsked             stopping (stopping), deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    Signal                up
        Signal 1, pid 100, 10 (forward)
    start                 up
        ReportSkipped 0
    stop                  stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    restart               stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    signal                up
        Signal 1, pid 100, 12 (asked)
    TimePassed early      up
    TimePassed            up
draining to be held, the last probe not yet gone
    Unchanged             draining, deadline in 1s
    Changed               draining, deadline in 1s
    Not configured        draining, deadline in 1s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              draining, deadline in 0s
    Exited well           held
        ReportExited 1, pid 100, status 0, run 17s, not wanted
    Exited badly          held
        ReportExited 1, pid 100, status 9, run 15s, not wanted, oom
    Ready                 draining, deadline in 0s
    WatchdogPing          draining, deadline in 0s
    ExtendTimeout         draining, deadline in 1s
    health ended          draining, deadline in 1s
    health failed         draining, deadline in 1s
    ScheduleDue           draining, deadline in 1s
    StopAsked             draining (stopping), deadline in 1s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                draining, deadline in 1s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 draining, deadline in 1s
    stop                  draining, deadline in 1s
    restart               draining, deadline in 1s
    signal                draining, deadline in 1s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      draining, deadline in 0.5s
    TimePassed            pre_stop
        RunHelper 1 pre_stop
pre_stop to restart
    Unchanged             pre_stop
    Changed               pre_stop
    Not configured        pre_stop, deadline in 10s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              pre_stop
    Exited well           starting
        CancelHelper 1 pre_stop; Spawn 1; ReportExited 1, pid 100, status 0, run 3s, restart in 0s
    Exited badly          starting
        CancelHelper 1 pre_stop; Spawn 1; ReportExited 1, pid 100, status 9, run 1s, restart in 0s, oom
    Ready                 pre_stop
    WatchdogPing          pre_stop
    ExtendTimeout         pre_stop
    pre_stop ended        stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    pre_stop failed       stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    ScheduleDue           pre_stop
    StopAsked             pre_stop (stopping), deadline in 5s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                pre_stop
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 pre_stop
    stop                  pre_stop
    restart               pre_stop
    signal                pre_stop
        Signal 1, pid 100, 12 (asked)
    TimePassed early      pre_stop
    TimePassed            pre_stop
stopping, not wanted
    Unchanged             stopping, deadline in 9s
    Changed               stopping, deadline in 9s
    Not configured        stopping, deadline in 9s
    Executed              stopping, deadline in 8s
    Exited well           down, deadline in 7s
        ReportExited 1, pid 100, status 0, run 3s, not wanted
    Exited badly          down, deadline in 9s
        ReportExited 1, pid 100, status 9, run 1s, not wanted, oom
    Ready                 stopping, deadline in 8s
    WatchdogPing          stopping, deadline in 8s
    ExtendTimeout         stopping, deadline in 9s
    ScheduleDue           stopping, deadline in 9s
    StopAsked             stopping (stopping), deadline in 9s
    Signal                stopping, deadline in 9s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 stopping, deadline in 9s
    stop                  stopping, deadline in 9s
    restart               stopping, deadline in 9s
    signal                stopping, deadline in 9s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      stopping, deadline in 8.5s
    TimePassed            killing
        Signal 1, pid 100, 9 (kill) tree; Signal 1:1, pid 200, 9 (kill) tree
stopping, for its watchdog
    Unchanged             stopping, deadline in 10s
    Changed               stopping, deadline in 10s
    Not configured        stopping, deadline in 10s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              stopping, deadline in 9s
    Exited well           starting
        Spawn 1; ReportExited 1, pid 100, status 0, run 22s, restart in 0s
    Exited badly          starting
        Spawn 1; ReportExited 1, pid 100, status 9, run 20s, restart in 0s, oom
    Ready                 stopping, deadline in 9s
    WatchdogPing          stopping, deadline in 9s
    ExtendTimeout         stopping, deadline in 60s
    health ended          stopping, deadline in 10s
    health failed         stopping, deadline in 10s
    ScheduleDue           stopping, deadline in 10s
    StopAsked             stopping (stopping), deadline in 10s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                stopping, deadline in 10s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 stopping, deadline in 10s
    stop                  stopping, deadline in 10s
    restart               stopping, deadline in 10s
    signal                stopping, deadline in 10s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      stopping, deadline in 9.5s
    TimePassed            killing
        Signal 1, pid 100, 9 (kill) tree
killing, for its start timeout
    Unchanged             killing
    Changed               killing
    Not configured        killing, deadline in 10s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              killing
    Exited well           starting
        Spawn 1; ReportExited 1, pid 100, status 0, run 32s, restart in 0s
    Exited badly          starting
        Spawn 1; ReportExited 1, pid 100, status 9, run 30s, restart in 0s, oom
    Ready                 killing
    WatchdogPing          killing
    ExtendTimeout         killing
    readiness ended       killing
    readiness failed      killing
    ScheduleDue           killing
    StopAsked             killing (stopping), deadline in 10s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                killing
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 killing
    stop                  killing
    restart               killing
    signal                killing
        Signal 1, pid 100, 12 (asked)
    TimePassed early      killing
    TimePassed            killing
backoff, the last probe not yet gone
    Unchanged             starting
        Spawn 1
    Changed               starting
        Spawn 1
    Not configured        down, deadline in 10s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Ready                 backoff, deadline in 0s
    WatchdogPing          backoff, deadline in 0s
    ExtendTimeout         backoff, deadline in 1s
    health ended          backoff, deadline in 1s
    health failed         backoff, deadline in 1s
    ScheduleDue           backoff, deadline in 1s
    StopAsked             down (stopping), deadline in 1s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                backoff, deadline in 1s
        Signal 1:1, pid 200, 10 (forward)
    start                 starting
        Spawn 1
    stop                  held
    restart               starting
        Spawn 1
    signal                backoff, deadline in 1s
    NoChildLeft           backoff, deadline in 1s
    TimePassed early      backoff, deadline in 0.5s
    TimePassed            starting
        Spawn 1
done
    Unchanged             done
    Changed               done
    Not configured        down, deadline in 10s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Ready                 done
    WatchdogPing          done
    ExtendTimeout         done
    ScheduleDue           done
    StopAsked             down (stopping), deadline in 10s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                done
        Signal 1:1, pid 200, 10 (forward)
    start                 starting
        Spawn 1
    stop                  done
    restart               starting
        Spawn 1
    signal                done
    NoChildLeft           done
    TimePassed early      done
    TimePassed            done
failed
    Unchanged             failed
    Changed               starting
        Spawn 1
    Not configured        down, deadline in 10s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Ready                 failed
    WatchdogPing          failed
    ExtendTimeout         failed
    on_failure ended      failed
    ScheduleDue           failed
    StopAsked             down (stopping), deadline in 10s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                failed
        Signal 1:1, pid 200, 10 (forward)
    start                 starting
        Spawn 1
    stop                  failed
    restart               starting
        Spawn 1
    signal                failed
    NoChildLeft           failed
    TimePassed early      failed
    TimePassed            failed
failed, scheduled
    Unchanged             failed
    Changed               failed
    Not configured        down
    Ready                 failed
    WatchdogPing          failed
    ExtendTimeout         failed
    on_failure ended      failed
    ScheduleDue           starting
        Spawn 1
    StopAsked             down (stopping), deadline in 24s
    Signal                failed
    start                 starting
        Spawn 1
    stop                  held
    restart               starting
        Spawn 1
    signal                failed
    NoChildLeft           failed
    TimePassed early      failed
    TimePassed            failed
held
    Unchanged             held
    Changed               held
    Not configured        down
    Ready                 held
    WatchdogPing          held
    ExtendTimeout         held
    ScheduleDue           held
    StopAsked             down (stopping), deadline in 30s
    Signal                held
    start                 starting
        Spawn 1
    stop                  held
    restart               starting
        Spawn 1
    signal                held
    NoChildLeft           held
    TimePassed early      held
    TimePassed            held
up in a stop, not its turn yet
    Unchanged             up (stopping), deadline in 9.23076923s
    Changed               up (stopping), deadline in 9.23076923s
    Not configured        up (stopping), deadline in 9.23076923s
    Executed              up (stopping), deadline in 8.23076923s
    Exited well           down (stopping), deadline in 7.23076923s
        ReportExited 1, pid 100, status 0, run 2s, not wanted
    Exited badly          down (stopping), deadline in 9.23076923s
        ReportExited 1, pid 100, status 9, run 0s, not wanted, oom
    Ready                 up (stopping), deadline in 8.23076923s
    WatchdogPing          up (stopping), deadline in 8.23076923s
    ExtendTimeout         up (stopping), deadline in 9.23076923s
    ScheduleDue           up (stopping), deadline in 9.23076923s
    StopAsked             killing (stopping), deadline in 9.23076923s
        Signal 1, pid 100, 9 (kill) tree; Signal 1:1, pid 200, 9 (kill) tree
    Signal                up (stopping), deadline in 9.23076923s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 up (stopping), deadline in 9.23076923s
    stop                  up (stopping), deadline in 9.23076923s
    restart               up (stopping), deadline in 9.23076923s
    signal                up (stopping), deadline in 9.23076923s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      up (stopping), deadline in 8.73076923s
    TimePassed            draining (stopping), deadline in 0.25s
        Signal 1:1, pid 200, 9 (kill) tree
draining in a stop
    Unchanged             draining (stopping), deadline in 1s
    Changed               draining (stopping), deadline in 1s
    Not configured        draining (stopping), deadline in 1s
    Executed              draining (stopping), deadline in 0s
    Exited well           down (stopping), deadline in -1s
        ReportExited 1, pid 100, status 0, run 2s, not wanted
    Exited badly          down (stopping), deadline in 1s
        ReportExited 1, pid 100, status 9, run 0s, not wanted, oom
    Ready                 draining (stopping), deadline in 0s
    WatchdogPing          draining (stopping), deadline in 0s
    ExtendTimeout         draining (stopping), deadline in 1s
    ScheduleDue           draining (stopping), deadline in 1s
    StopAsked             killing (stopping), deadline in 1s
        Signal 1, pid 100, 9 (kill) tree; Signal 1:1, pid 200, 9 (kill) tree
    Signal                draining (stopping), deadline in 1s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 draining (stopping), deadline in 1s
    stop                  draining (stopping), deadline in 1s
    restart               draining (stopping), deadline in 1s
    signal                draining (stopping), deadline in 1s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      draining (stopping), deadline in 0.5s
    TimePassed            pre_stop (stopping), deadline in 1.333333333s
        RunHelper 1 pre_stop; Signal 1:1, pid 200, 9 (kill) tree
pre_stop in a stop
    Unchanged             pre_stop (stopping), deadline in 5s
    Changed               pre_stop (stopping), deadline in 5s
    Not configured        pre_stop (stopping), deadline in 5s
    Executed              pre_stop (stopping), deadline in 4s
    Exited well           down (stopping), deadline in 3s
        CancelHelper 1 pre_stop; ReportExited 1, pid 100, status 0, run 3s, not wanted
    Exited badly          down (stopping), deadline in 5s
        CancelHelper 1 pre_stop; ReportExited 1, pid 100, status 9, run 1s, not wanted, oom
    Ready                 pre_stop (stopping), deadline in 4s
    WatchdogPing          pre_stop (stopping), deadline in 4s
    ExtendTimeout         pre_stop (stopping), deadline in 5s
    pre_stop ended        stopping (stopping), deadline in 5s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    pre_stop failed       stopping (stopping), deadline in 5s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    ScheduleDue           pre_stop (stopping), deadline in 5s
    StopAsked             killing (stopping), deadline in 5s
        CancelHelper 1 pre_stop; Signal 1, pid 100, 9 (kill) tree; Signal 1:1, pid 200, 9 (kill) tree
    Signal                pre_stop (stopping), deadline in 5s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 pre_stop (stopping), deadline in 5s
    stop                  pre_stop (stopping), deadline in 5s
    restart               pre_stop (stopping), deadline in 5s
    signal                pre_stop (stopping), deadline in 5s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      pre_stop (stopping), deadline in 4.5s
    TimePassed            stopping (stopping), deadline in 3s
        CancelHelper 1 pre_stop; Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); Signal 1:1, pid 200, 9 (kill) tree
failed before a stop
    Unchanged             down (stopping), deadline in 10s
    Changed               down (stopping), deadline in 10s
    Not configured        down (stopping), deadline in 10s
    Ready                 down (stopping), deadline in 9s
    WatchdogPing          down (stopping), deadline in 9s
    ExtendTimeout         down (stopping), deadline in 10s
    on_failure ended      down (finished)
        Finish 0
    ScheduleDue           down (stopping), deadline in 10s
    StopAsked             down (stopping), deadline in 10s
        CancelHelper 1 on_failure
    Signal                down (stopping), deadline in 10s
    start                 down (stopping), deadline in 10s
    stop                  down (stopping), deadline in 10s
    restart               down (stopping), deadline in 10s
    signal                down (stopping), deadline in 10s
    NoChildLeft           down (stopping), deadline in 10s
    TimePassed early      down (stopping), deadline in 9.5s
    TimePassed            down (stopping), deadline in 4s
activating, one-shot with a time limit
    Unchanged             activating, deadline in 7s
    Changed               activating, deadline in 7s
    Not configured        stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              activating, deadline in 6s
    Exited well           done
        RunHelper 1 on_success; ReportExited 1, pid 100, status 0, run 2s, not wanted
    Exited badly          failed
        RunHelper 1 on_failure; ReportExited 1, pid 100, status 9, run 0s, not wanted, oom
    Ready                 activating, deadline in 6s
    WatchdogPing          activating, deadline in 6s
    ExtendTimeout         activating, deadline in 7s
    ScheduleDue           activating, deadline in 7s
    StopAsked             stopping (stopping), deadline in 7s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                activating, deadline in 7s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 activating, deadline in 7s
    stop                  stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    restart               stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    signal                activating, deadline in 7s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      activating, deadline in 6.5s
    TimePassed            stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); ReportTimedOut 1 run
done, with something to undo
    Unchanged             done
    Changed               done
    Not configured        undoing, deadline in 10s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward); RunHelper 1 on_stop
    Ready                 done
    WatchdogPing          done
    ExtendTimeout         done
    ScheduleDue           done
    StopAsked             undoing (stopping), deadline in 7s
        RunHelper 1 on_stop; Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                done
        Signal 1:1, pid 200, 10 (forward)
    start                 starting
        Spawn 1
    stop                  undoing
        RunHelper 1 on_stop
    restart               undoing
        RunHelper 1 on_stop
    signal                done
    NoChildLeft           done
    TimePassed early      done
    TimePassed            done
undoing, to be held
    Unchanged             undoing
    Changed               undoing
    Not configured        undoing, deadline in 10s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Ready                 undoing
    WatchdogPing          undoing
    ExtendTimeout         undoing
    on_stop ended         held
    ScheduleDue           undoing
    StopAsked             undoing (stopping), deadline in 7s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                undoing
        Signal 1:1, pid 200, 10 (forward)
    start                 undoing
    stop                  undoing
    restart               undoing
    signal                undoing
    NoChildLeft           undoing
    TimePassed early      undoing
    TimePassed            undoing
undoing, not wanted
    Unchanged             undoing, deadline in 10s
    Changed               undoing, deadline in 10s
    Not configured        undoing, deadline in 10s
    Ready                 undoing, deadline in 9s
    WatchdogPing          undoing, deadline in 9s
    ExtendTimeout         undoing, deadline in 10s
    on_stop ended         down, deadline in 10s
    ScheduleDue           undoing, deadline in 10s
    StopAsked             undoing (stopping), deadline in 10s
    Signal                undoing, deadline in 10s
        Signal 1:1, pid 200, 10 (forward)
    start                 undoing, deadline in 10s
    stop                  undoing, deadline in 10s
    restart               undoing, deadline in 10s
    signal                undoing, deadline in 10s
    NoChildLeft           undoing, deadline in 10s
    TimePassed early      undoing, deadline in 9.5s
    TimePassed            undoing
        Signal 1:1, pid 200, 9 (kill) tree
undoing in a stop
    Unchanged             undoing (stopping), deadline in 7s
    Changed               undoing (stopping), deadline in 7s
    Not configured        undoing (stopping), deadline in 7s
    Ready                 undoing (stopping), deadline in 6s
    WatchdogPing          undoing (stopping), deadline in 6s
    ExtendTimeout         undoing (stopping), deadline in 7s
    on_stop ended         down (stopping), deadline in 7s
    ScheduleDue           undoing (stopping), deadline in 7s
    StopAsked             down (stopping), deadline in 7s
        CancelHelper 1 on_stop; Signal 1:1, pid 200, 9 (kill) tree
    Signal                undoing (stopping), deadline in 7s
        Signal 1:1, pid 200, 10 (forward)
    start                 undoing (stopping), deadline in 7s
    stop                  undoing (stopping), deadline in 7s
    restart               undoing (stopping), deadline in 7s
    signal                undoing (stopping), deadline in 7s
    NoChildLeft           undoing (stopping), deadline in 7s
    TimePassed early      undoing (stopping), deadline in 6.5s
    TimePassed            undoing (stopping), deadline in 4s
        Signal 1:1, pid 200, 9 (kill) tree
done in a stop, not its turn yet
    Unchanged             done (stopping), deadline in 7s
    Changed               done (stopping), deadline in 7s
    Not configured        done (stopping), deadline in 7s
    Ready                 done (stopping), deadline in 6s
    WatchdogPing          done (stopping), deadline in 6s
    ExtendTimeout         done (stopping), deadline in 7s
    ScheduleDue           done (stopping), deadline in 7s
    StopAsked             down (stopping), deadline in 7s
        Signal 1:1, pid 200, 9 (kill) tree
    Signal                done (stopping), deadline in 7s
        Signal 1:1, pid 200, 10 (forward)
    start                 done (stopping), deadline in 7s
    stop                  done (stopping), deadline in 7s
    restart               done (stopping), deadline in 7s
    signal                done (stopping), deadline in 7s
    NoChildLeft           done (stopping), deadline in 7s
    TimePassed early      done (stopping), deadline in 6.5s
    TimePassed            done (stopping), deadline in 1s
        Signal 1:1, pid 200, 9 (kill) tree
stopping, the second signal
    Unchanged             stopping, deadline in 4s
    Changed               stopping, deadline in 4s
    Not configured        stopping, deadline in 4s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              stopping, deadline in 3s
    Exited well           starting
        Spawn 1; ReportExited 1, pid 100, status 0, run 4s, restart in 0s
    Exited badly          starting
        Spawn 1; ReportExited 1, pid 100, status 9, run 2s, restart in 0s, oom
    Ready                 stopping, deadline in 3s
    WatchdogPing          stopping, deadline in 3s
    ExtendTimeout         stopping, deadline in 60s
    ScheduleDue           stopping, deadline in 4s
    StopAsked             stopping (stopping), deadline in 4s
        Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                stopping, deadline in 4s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 stopping, deadline in 4s
    stop                  stopping, deadline in 4s
    restart               stopping, deadline in 4s
    signal                stopping, deadline in 4s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      stopping, deadline in 3.5s
    TimePassed            stopping, deadline in 1s
        Signal 1, pid 100, 3 (stop); Signal 1, pid 100, 18 (forward)
stopping, the second signal, in a stop
    Unchanged             stopping (stopping), deadline in 4s
    Changed               stopping (stopping), deadline in 4s
    Not configured        stopping (stopping), deadline in 4s
    Executed              stopping (stopping), deadline in 3s
    Exited well           down (stopping), deadline in 2s
        ReportExited 1, pid 100, status 0, run 4s, not wanted
    Exited badly          down (stopping), deadline in 4s
        ReportExited 1, pid 100, status 9, run 2s, not wanted, oom
    Ready                 stopping (stopping), deadline in 3s
    WatchdogPing          stopping (stopping), deadline in 3s
    ExtendTimeout         stopping (stopping), deadline in 4s
    ScheduleDue           stopping (stopping), deadline in 4s
    StopAsked             killing (stopping), deadline in 4s
        Signal 1, pid 100, 9 (kill) tree; Signal 1:1, pid 200, 9 (kill) tree
    Signal                stopping (stopping), deadline in 4s
        Signal 1, pid 100, 10 (forward); Signal 1:1, pid 200, 10 (forward)
    start                 stopping (stopping), deadline in 4s
    stop                  stopping (stopping), deadline in 4s
    restart               stopping (stopping), deadline in 4s
    signal                stopping (stopping), deadline in 4s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      stopping (stopping), deadline in 3.5s
    TimePassed            stopping (stopping), deadline in 1s
        Signal 1, pid 100, 3 (stop); Signal 1, pid 100, 18 (forward); Signal 1:1, pid 200, 9 (kill) tree
up, scheduled, one run missed
    Unchanged             up
    Changed               up
    Not configured        stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    Executed              up
    Exited well           starting
        ReportExited 1, pid 100, status 0, run 2s, not wanted; Spawn 1
    Exited badly          starting
        RunHelper 1 on_failure; ReportExited 1, pid 100, status 9, run 0s, not wanted, oom; Spawn 1
    Ready                 up
    WatchdogPing          up
    ExtendTimeout         up
    ScheduleDue           up
        ReportSkipped 0
    StopAsked             stopping (stopping), deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    Signal                up
        Signal 1, pid 100, 10 (forward)
    start                 up
        ReportSkipped 0
    stop                  stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    restart               stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    signal                up
        Signal 1, pid 100, 12 (asked)
    TimePassed early      up
    TimePassed            up
up, auxiliary
    Unchanged             up, deadline in 5s
    Changed               up, deadline in 5s
        Signal 1, pid 100, 1 (reload)
    Not configured        draining, deadline in 1s
        CancelHelper 1 health; Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Executed              up, deadline in 4s
    Exited well           done
        CancelHelper 1 health; ReportExited 1, pid 100, status 0, run 17s, not wanted
    Exited badly          failed
        CancelHelper 1 health; RunHelper 1 on_failure; ReportExited 1, pid 100, status 9, run 15s, not wanted, oom; ReportGaveUp 1, starts 1
    Ready                 up, deadline in 4s
    WatchdogPing          up, deadline in 20s
    ExtendTimeout         up, deadline in 5s
    health ended          up, deadline in 5s
    health failed         up, deadline in 5s
        ReportUnhealthy 1, failures 1, exit
    ScheduleDue           up, deadline in 5s
    StopAsked             up (stopping), deadline in 5s
        CancelHelper 1 health; Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)
    Signal                up, deadline in 5s
        Signal 1:1, pid 200, 10 (forward)
    start                 up, deadline in 5s
    stop                  draining, deadline in 1s
        CancelHelper 1 health
    restart               draining, deadline in 1s
        CancelHelper 1 health
    signal                up, deadline in 5s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      up, deadline in 4.5s
    TimePassed            stopping, deadline in 10s
        CancelHelper 1 health; Signal 1, pid 100, 6 (watchdog); Signal 1, pid 100, 18 (forward); ReportTimedOut 1 watchdog
up, auxiliary, and nothing else is to run
    Unchanged             up, deadline in 5s
    Changed               up, deadline in 5s
        Signal 1, pid 100, 1 (reload)
    Not configured        draining, deadline in 1s
        CancelHelper 1 health
    Executed              up, deadline in 4s
    Exited well           done
        CancelHelper 1 health; ReportExited 1, pid 100, status 0, run 17s, not wanted
    Exited badly          failed
        CancelHelper 1 health; RunHelper 1 on_failure; ReportExited 1, pid 100, status 9, run 15s, not wanted, oom; ReportGaveUp 1, starts 1
    Ready                 up, deadline in 4s
    WatchdogPing          up, deadline in 20s
    ExtendTimeout         up, deadline in 5s
    health ended          up, deadline in 5s
    health failed         up, deadline in 5s
        ReportUnhealthy 1, failures 1, exit
    ScheduleDue           up, deadline in 5s
    StopAsked             draining (stopping), deadline in 1s
        CancelHelper 1 health
    Signal                up, deadline in 5s
    start                 up, deadline in 5s
    stop                  draining, deadline in 1s
        CancelHelper 1 health
    restart               draining, deadline in 1s
        CancelHelper 1 health
    signal                up, deadline in 5s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      up, deadline in 4.5s
    TimePassed            stopping, deadline in 10s
        CancelHelper 1 health; Signal 1, pid 100, 6 (watchdog); Signal 1, pid 100, 18 (forward); ReportTimedOut 1 watchdog
failed, auxiliary, and nothing else is to run
    Unchanged             failed
    Changed               starting
        Spawn 1
    Not configured        down
    Ready                 failed
    WatchdogPing          failed
    ExtendTimeout         failed
    on_failure ended      failed
    ScheduleDue           failed
    StopAsked             down (stopping), deadline in 24s
    Signal                failed
    start                 starting
        Spawn 1
    stop                  failed
    restart               starting
        Spawn 1
    signal                failed
    NoChildLeft           failed
    TimePassed early      failed
    TimePassed            failed
up in a stop, auxiliary
    Unchanged             up (stopping), deadline in 5s
    Changed               up (stopping), deadline in 5s
    Not configured        up (stopping), deadline in 5s
    Executed              up (stopping), deadline in 4s
    Exited well           down (stopping), deadline in 3s
        ReportExited 1, pid 100, status 0, run 17s, not wanted
    Exited badly          down (stopping), deadline in 5s
        ReportExited 1, pid 100, status 9, run 15s, not wanted, oom
    Ready                 up (stopping), deadline in 4s
    WatchdogPing          up (stopping), deadline in 4s
    ExtendTimeout         up (stopping), deadline in 5s
    health ended          up (stopping), deadline in 5s
    health failed         up (stopping), deadline in 5s
    ScheduleDue           up (stopping), deadline in 5s
    StopAsked             killing (stopping), deadline in 5s
        Signal 1, pid 100, 9 (kill) tree; Signal 1:1, pid 200, 9 (kill) tree
    Signal                up (stopping), deadline in 5s
        Signal 1:1, pid 200, 10 (forward)
    start                 up (stopping), deadline in 5s
    stop                  up (stopping), deadline in 5s
    restart               up (stopping), deadline in 5s
    signal                up (stopping), deadline in 5s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      up (stopping), deadline in 4.5s
    TimePassed            draining (stopping), deadline in 0.25s
        Signal 1:1, pid 200, 9 (kill) tree
draining in a stop, auxiliary, the others down
    Unchanged             draining (stopping), deadline in 1s
    Changed               draining (stopping), deadline in 1s
    Not configured        draining (stopping), deadline in 1s
    Executed              draining (stopping), deadline in 0s
    Exited well           down (stopping), deadline in -1s
        ReportExited 1, pid 100, status 0, run 17s, not wanted
    Exited badly          down (stopping), deadline in 1s
        ReportExited 1, pid 100, status 9, run 15s, not wanted, oom
    Ready                 draining (stopping), deadline in 0s
    WatchdogPing          draining (stopping), deadline in 0s
    ExtendTimeout         draining (stopping), deadline in 1s
    health ended          draining (stopping), deadline in 1s
    health failed         draining (stopping), deadline in 1s
    ScheduleDue           draining (stopping), deadline in 1s
    StopAsked             killing (stopping), deadline in 1s
        Signal 1, pid 100, 9 (kill) tree
    Signal                draining (stopping), deadline in 1s
    start                 draining (stopping), deadline in 1s
    stop                  draining (stopping), deadline in 1s
    restart               draining (stopping), deadline in 1s
    signal                draining (stopping), deadline in 1s
        Signal 1, pid 100, 12 (asked)
    TimePassed early      draining (stopping), deadline in 0.5s
    TimePassed            pre_stop (stopping), deadline in 1.333333333s
        RunHelper 1 pre_stop
)";

/// What a row has to be there for. HelperEnded is left out where only an earlier Helper::on_failure may come to its
/// end.
bool is_to_be_visited(State state, std::size_t event) {
    if (event == 5) return false;   // MainFound: of programs that fork, which have tests of their own
    if (event >= 16) return false;  // TreeEmpty, SignalFailed: the same
    switch (state) {
        case State::clearing: return false;
        case State::starting: return event != 3 && event != 4 && event != 14;  // whether another lives does not matter
        case State::executing: return event != 1 && event != 2 && event != 9 && event != 14;
        case State::activating:
        case State::up:
        case State::draining:
        case State::pre_stop:
        case State::stopping:
        case State::killing: return event != 1 && event != 2 && event != 14;
        case State::backoff:
        case State::undoing:
        case State::failed: return event != 1 && event != 2 && event != 3 && event != 4 && event != 14;
        case State::down:
        case State::waiting:
        case State::done:
        case State::held: return event != 1 && event != 2 && event != 3 && event != 4 && event != 9 && event != 14;
    }
    std::unreachable();
}

TEST(SupervisorTable, OfTheDesign) {
    Visited visited;
    std::string const actual = table(design_rows, design_columns, visited);
    std::printf("%s", actual.c_str());
    EXPECT_EQ(actual, expected_design_table);
}

TEST(SupervisorTable, OfPrograms) {
    Visited visited;
    std::string const actual = table(program_rows, program_columns, visited);
    std::printf("%s", actual.c_str());
    EXPECT_EQ(actual, expected_program_table);
    for (std::size_t state = 0; state < process_states; ++state) {
        for (std::size_t event = 0; event < std::variant_size_v<Event>; ++event) {
            auto const where = static_cast<State>(state);
            if (!is_to_be_visited(where, event)) continue;
            EXPECT_TRUE(visited.contains({where, event})) << text(where) << " by event " << event << " is not tried";
        }
    }
}

}  // namespace

}  // namespace triton::launcher
