#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/supervisor_subject.h"

namespace triton::launcher {

namespace {

using namespace std::chrono_literals;
using simulation::text;
using State = Supervisor::State;
using Phase = Supervisor::Phase;

constexpr SpawnError no_memory{SpawnStage::clone, ENOMEM};
constexpr SpawnError not_found{SpawnStage::execute, ENOENT};

// Every state by every event. A row is how process 1 comes there; what its kernel cannot send is left out.

struct Row {
    char const* name;
    Subject (*reach)();
};

Row const rows[] = {
    {"down",
     [] {
         Subject subject = all_up(1);
         subject.configuration(0).exited(first, 0);
         return subject;
     }},
    {"starting",
     [] {
         Subject subject(plain());
         subject.configuration(1);
         return subject;
     }},
    {"starting, not wanted",
     [] {
         Subject subject(plain());
         subject.configuration(1).configuration(0);
         return subject;
     }},
    {"up", [] { return all_up(1); }},
    {"stopping",
     [] {
         Subject subject = all_up(1);
         subject.configuration(0);
         return subject;
     }},
    {"stopping, wanted again",
     [] {
         Subject subject = all_up(1);
         subject.configuration(0).configuration(1);
         return subject;
     }},
    {"killing",
     [] {
         Subject subject = all_up(1);
         subject.configuration(0).after(10s).time();
         return subject;
     }},
    {"backoff",
     [] {
         Subject subject(plain());
         subject.configuration(1).spawned(first).exited(first, 1).spawned(first).exited(first, 1);
         return subject;
     }},
    {"starting in a stop",
     [] {
         Subject subject(plain());
         subject.configuration(1).stop();
         return subject;
     }},
    {"stopping in a stop",
     [] {
         Subject subject = all_up(1);
         subject.stop();
         return subject;
     }},
    {"killing in a stop",
     [] {
         Subject subject = all_up(1);
         subject.stop().stop();
         return subject;
     }},
    {"swept (PID 1)",
     [] {
         Subject subject = all_up(1, pid_1());
         subject.stop().exited(first, 0);
         return subject;
     }},
    {"finished",
     [] {
         Subject subject = all_up(1);
         subject.stop().exited(first, 0);
         return subject;
     }},
};

struct Column {
    char const* name;
    Duration later;
    Event event;
};

Column const columns[] = {
    {"Configuration 1", 0s, event::ConfigurationAccepted{1}},
    {"Configuration 0", 0s, event::ConfigurationAccepted{0}},
    {"Spawned", 0s, event::Spawned{first, Pid{200}}},
    {"SpawnFailed", 0s, event::SpawnFailed{first, no_memory}},
    {"Exited well", 2s, event::Exited{first, 0, std::nullopt}},
    {"Exited badly", 0s, event::Exited{first, SIGSEGV, std::nullopt}},
    {"Exited before execve", 0s, event::Exited{first, 127 << 8, not_found}},
    {"StopAsked", 0s, event::StopAsked{}},
    {"Signal", 0s, event::SignalReceived{SIGUSR1}},
    {"NoChildLeft", 0s, event::NoChildLeft{}},
    {"TimePassed early", 500ms, event::TimePassed{}},
    {"TimePassed", 10s, event::TimePassed{}},
    {"TimePassed late", 1h, event::TimePassed{}},
};

bool is_result(Event const& event) {
    return std::holds_alternative<event::Spawned>(event) || std::holds_alternative<event::SpawnFailed>(event);
}

bool is_possible(Subject const& subject, Event const& event) {
    State const state = subject.supervisor.state(first);
    if (is_result(event)) return state == State::starting;
    bool const is_alive = state == State::up || state == State::stopping || state == State::killing;
    if (std::holds_alternative<event::Exited>(event)) return is_alive;
    if (std::holds_alternative<event::NoChildLeft>(event)) return !is_alive;
    return true;
}

std::string line(Row const& row, Column const& column) {
    Subject subject = row.reach();
    if (!is_possible(subject, column.event)) return "";
    subject.after(column.later).on(column.event);
    std::string name(column.name);
    name.resize(22, ' ');
    std::string result = "    " + name + text(subject.supervisor.state(first));
    if (subject.supervisor.phase() != Phase::running) result += " (" + text(subject.supervisor.phase()) + ")";
    if (auto const deadline = subject.deadline()) result += ", deadline in " + text(*deadline);
    return result + "\n" + (subject.actions.empty() ? "" : "        " + subject.done() + "\n");
}

std::string table() {
    std::string all = "\n";
    for (Row const& row : rows) {
        all += std::string(row.name) + "\n";
        for (Column const& column : columns)
            all += line(row, column);
    }
    return all;
}

/// What IsPrinted prints: state and phase after the event, the time to the deadline, and below it the actions.
constexpr char const* expected_table = R"(
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
    Spawned               up
        ReportStarted 1, pid 200
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
        ReportStarted 1, pid 200; Signal 1, pid 200, 15 (stop); Signal 1, pid 200, 18 (forward)
    SpawnFailed           down
        ReportStartFailed 1, stage 0 errno 12, not wanted
    StopAsked             starting (stopping), deadline in 30s
    Signal                starting
    NoChildLeft           starting
    TimePassed early      starting
    TimePassed            starting
    TimePassed late       starting
up
    Configuration 1       up
    Configuration 0       stopping, deadline in 10s
        Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)
    Exited well           starting
        Spawn 1; ReportExited 1, pid 100, status 0, run 2s, restart in 0s
    Exited badly          starting
        Spawn 1; ReportExited 1, pid 100, status 11, run 0s, restart in 0s
    Exited before execve  starting
        Spawn 1; ReportStartFailed 1, stage 3 errno 2, restart in 0s
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
    Exited well           down
        ReportExited 1, pid 100, status 0, run 2s, not wanted
    Exited badly          down
        ReportExited 1, pid 100, status 11, run 0s, not wanted
    Exited before execve  down
        ReportStartFailed 1, stage 3 errno 2, not wanted
    StopAsked             stopping (stopping), deadline in 10s
    Signal                stopping, deadline in 10s
        Signal 1, pid 100, 10 (forward)
    TimePassed early      stopping, deadline in 9.5s
    TimePassed            killing
        Signal 1, pid 100, 9 (kill)
    TimePassed late       killing
        Signal 1, pid 100, 9 (kill)
stopping, wanted again
    Configuration 1       stopping, deadline in 10s
    Configuration 0       stopping, deadline in 10s
    Exited well           starting
        Spawn 1; ReportExited 1, pid 100, status 0, run 2s, restart in 0s
    Exited badly          starting
        Spawn 1; ReportExited 1, pid 100, status 11, run 0s, restart in 0s
    Exited before execve  starting
        Spawn 1; ReportStartFailed 1, stage 3 errno 2, restart in 0s
    StopAsked             stopping (stopping), deadline in 10s
    Signal                stopping, deadline in 10s
        Signal 1, pid 100, 10 (forward)
    TimePassed early      stopping, deadline in 9.5s
    TimePassed            killing
        Signal 1, pid 100, 9 (kill)
    TimePassed late       killing
        Signal 1, pid 100, 9 (kill)
killing
    Configuration 1       killing
    Configuration 0       killing
    Exited well           down
        ReportExited 1, pid 100, status 0, run 12s, not wanted
    Exited badly          down
        ReportExited 1, pid 100, status 11, run 10s, not wanted
    Exited before execve  down
        ReportStartFailed 1, stage 3 errno 2, not wanted
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
        ReportStarted 1, pid 200; Signal 1, pid 200, 15 (stop); Signal 1, pid 200, 18 (forward)
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
    Exited well           down (finished)
        ReportExited 1, pid 100, status 0, run 2s, not wanted; Finish 0
    Exited badly          down (finished)
        ReportExited 1, pid 100, status 11, run 0s, not wanted; Finish 0
    Exited before execve  down (finished)
        ReportStartFailed 1, stage 3 errno 2, not wanted; Finish 0
    StopAsked             killing (stopping), deadline in 10s
        Signal 1, pid 100, 9 (kill)
    Signal                stopping (stopping), deadline in 10s
        Signal 1, pid 100, 10 (forward)
    TimePassed early      stopping (stopping), deadline in 9.5s
    TimePassed            killing (stopping), deadline in 20s
        Signal 1, pid 100, 9 (kill)
    TimePassed late       killing (finished)
        Signal 1, pid 100, 9 (kill); ReportLeft 1, pid 100; Finish 1
killing in a stop
    Configuration 1       killing (stopping), deadline in 10s
    Configuration 0       killing (stopping), deadline in 10s
    Exited well           down (finished)
        ReportExited 1, pid 100, status 0, run 2s, not wanted; Finish 0
    Exited badly          down (finished)
        ReportExited 1, pid 100, status 11, run 0s, not wanted; Finish 0
    Exited before execve  down (finished)
        ReportStartFailed 1, stage 3 errno 2, not wanted; Finish 0
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

TEST(SupervisorTable, IsPrinted) { std::printf("%s", table().c_str()); }

TEST(SupervisorTable, EveryStateByEveryEvent) { EXPECT_EQ(table(), expected_table); }

}  // namespace

}  // namespace triton::launcher
