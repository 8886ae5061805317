#include <cerrno>
#include <csignal>

#include <gtest/gtest.h>

#include "tests/unit/launcher/supervisor/supervisor_subject.h"

// What programs can do beyond the design's form. Each by itself; all of it by all of it is the simulation's business.

namespace triton::launcher {

namespace {

using namespace std::chrono_literals;
using event::Verb;
using State = ProcessState;
using Phase = SupervisorPhase;

constexpr int exit_code_1 = 1 << 8;
constexpr ProcessNumber number_2{2};

/// A service without jitter, to be changed.
ProgramPolicy service() { return plain().program; }

ProgramPolicy after(std::vector<ProgramId> ids) {
    ProgramPolicy policy = service();
    policy.after = std::move(ids);
    return policy;
}

ProgramPolicy needing(std::vector<ProgramId> ids) {
    ProgramPolicy policy = service();
    policy.requires_ = std::move(ids);
    return policy;
}

ProgramPolicy of_kind(ProgramKind kind, Restart restart = Restart::never) {
    ProgramPolicy policy = service();
    policy.kind = kind;
    policy.restart = restart;
    return policy;
}

Subject with(std::vector<ProgramPolicy> const& programs, Policies const& policies = plain()) {
    Subject subject(policies);
    subject.programs(programs);
    return subject;
}

/// All that starts is up, and what waits for that, and so on.
Subject up(std::vector<ProgramPolicy> const& programs, Policies const& policies = plain()) {
    Subject subject = with(programs, policies);
    for (bool is_going_on = true; is_going_on;) {
        is_going_on = false;
        for (std::uint32_t program = 0; program < programs.size(); ++program) {
            for (std::uint32_t number = 1; number <= programs[program].count; ++number) {
                if (subject.state(process(program, number)) != State::starting) continue;
                subject.spawned(process(program, number));
                is_going_on = true;
            }
        }
    }
    return subject;
}

// Restart and start limit.

TEST(SupervisorRestart, OnFailureKnowsSuccess) {
    ProgramPolicy policy = service();
    policy.restart = Restart::on_failure;
    policy.count = 2;
    Subject subject = up({policy});
    EXPECT_EQ(subject.exited(first, exit_code_1).done(),
              "Spawn 1; ReportExited 1, pid 100, status 256, run 0s, restart in 0s");
    EXPECT_EQ(subject.exited(process(2), 0).done(), "ReportExited 2, pid 101, status 0, run 0s, not wanted");
    EXPECT_EQ(subject.state(process(2)), State::done);
    EXPECT_TRUE(subject.supervisor.view(process(2)).is_ready);
}

TEST(SupervisorRestart, APolicyNamesFurtherSuccesses) {
    ProgramPolicy policy = service();
    policy.restart = Restart::on_failure;
    policy.count = 3;
    policy.success_ends = {143, config::signal_end + SIGTERM};
    Subject subject = up({policy});
    EXPECT_EQ(subject.exited(first, 143 << 8).done(),
              "ReportExited 1, pid 100, status 36608, run 0s, not wanted, expected");
    EXPECT_EQ(subject.exited(process(2), SIGTERM).done(),
              "ReportExited 2, pid 101, status 15, run 0s, not wanted, expected");
    EXPECT_EQ(subject.state(process(2)), State::done);
    EXPECT_EQ(subject.exited(process(3), SIGINT).done(),
              "Spawn 3; ReportExited 3, pid 102, status 2, run 0s, restart in 0s");
}

TEST(SupervisorRestart, ASuccessBeforeItWasReadyIsNone) {
    ProgramPolicy policy = service();
    policy.restart = Restart::never;
    policy.readiness = Readiness::notified;
    policy.success_ends = {143};
    Subject subject = up({policy});
    EXPECT_EQ(subject.exited(first, 143 << 8).done(),
              "ReportExited 1, pid 100, status 36608, run 0s, not wanted, expected; ReportEnding 1, exit code 143; "
              "Finish 143");
}

TEST(SupervisorRestart, APermanentFailureIsNotMendedByAnotherStart) {
    ProgramPolicy policy = service();
    policy.permanent_ends = {78, config::signal_end + SIGSEGV};
    policy.has_on_failure = true;
    policy.count = 2;
    Subject subject = up({policy, service()});
    EXPECT_EQ(subject.exited(first, 78 << 8).done(),
              "RunHelper 1 on_failure; ReportExited 1, pid 100, status 19968, run 0s, not wanted, permanent");
    EXPECT_EQ(subject.state(), State::failed);
    EXPECT_EQ(subject.exited(process(2), SIGSEGV).done(),
              "RunHelper 2 on_failure; ReportExited 2, pid 101, status 11, run 0s, not wanted, permanent");
    EXPECT_EQ(subject.command(Verb::start).done(), "Spawn 1; Spawn 2");  // a person may know better
}

// Programs that do not start by themselves.

ProgramPolicy by_command(ProgramPolicy policy) {
    policy.auto_start = false;
    return policy;
}

TEST(SupervisorAutoStart, WithoutItAProgramIsHeldUntilItIsStarted) {
    Subject subject = with({by_command(service()), service(), needing({ProgramId{0}})});
    EXPECT_EQ(subject.done(), "Spawn 1:1");
    EXPECT_EQ(subject.state(), State::held);
    EXPECT_EQ(subject.state(process(2, 1)), State::waiting);
    EXPECT_EQ(subject.command(Verb::start).done(), "Spawn 1");
    EXPECT_EQ(subject.spawned(first).done(), "ReportStarted 1, pid 100; Spawn 2:1");
}

TEST(SupervisorAutoStart, TheContainerIsReadyAndEndsWithoutIt) {
    Subject subject = with({by_command(service()), of_kind(ProgramKind::one_shot)});
    EXPECT_FALSE(subject.supervisor.is_ready());
    subject.spawned(process(1, 1));
    EXPECT_EQ(subject.exited(process(1, 1), 0).done(),
              "ReportExited 1:1, pid 200, status 0, run 0s, not wanted; ReportEnding 1:1, exit code 0; Finish 0");

    Subject alone = with({by_command(service())});
    EXPECT_EQ(alone.done(), "");
    EXPECT_TRUE(alone.supervisor.is_ready());
    EXPECT_EQ(alone.supervisor.phase(), Phase::running) << "somebody may start it";
}

TEST(SupervisorAutoStart, WhatWasStartedStaysSoOverConfigurationsAndUpgrades) {
    Subject subject = with({by_command(service())});
    subject.command(Verb::start).spawned(first);
    ProgramPolicy more = by_command(service());
    more.count = 2;
    EXPECT_EQ(subject.programs({more}).done(), "Spawn 2");
    EXPECT_TRUE(Supervisor({}, subject.supervisor.state()).state() == subject.supervisor.state());
}

TEST(SupervisorRestart, NeverEndsInDoneOrFailed) {
    ProgramPolicy policy = service();
    policy.restart = Restart::never;
    policy.count = 4;
    Subject subject = with({policy});
    for (std::uint32_t number = 1; number < 4; ++number)
        subject.spawned(process(number));
    subject.exited(process(1), 0).exited(process(2), SIGTERM);
    subject.on(event::SpawnFailed{process(4), {process::SpawnStage::clone, EAGAIN}});
    EXPECT_EQ(subject.done(), "ReportStartFailed 4, stage 0 errno 11, not wanted");
    EXPECT_EQ(subject.state(process(1)), State::done);
    EXPECT_EQ(subject.state(process(2)), State::failed);
    EXPECT_EQ(subject.state(process(3)), State::up);
    EXPECT_EQ(subject.state(process(4)), State::failed);
}

Subject limited(std::optional<int> exit_code = {}) {
    ProgramPolicy policy = service();
    policy.backoff.delay = 1s;
    policy.backoff.factor = 1;
    policy.start_limit = StartLimit{3, 10s, exit_code};
    policy.has_on_failure = true;
    return up({policy, service()});
}

TEST(SupervisorStartLimit, GivesUpInsteadOfTheOneTooMany) {
    Subject subject = limited();
    subject.exited(first, 1).spawned(first).exited(first, 1).after(1s).time().spawned(first);
    EXPECT_EQ(
        subject.exited(first, 1).done(),
        "RunHelper 1 on_failure; ReportExited 1, pid 100, status 1, run 0s, not wanted; ReportGaveUp 1, starts 3");
    EXPECT_EQ(subject.state(), State::failed);
    EXPECT_EQ(subject.supervisor.phase(), Phase::running);
    EXPECT_EQ(subject.helper(first, Helper::on_failure).done(), "");
}

TEST(SupervisorStartLimit, ForgetsWhatIsLongAgo) {
    Subject subject = limited();
    for (int i = 0; i < 20; ++i) {
        subject.after(3400ms).exited(first, 1);  // the fourth start comes 10.2 s after the first
        if (subject.state() == State::backoff) subject.after(1s).time();
        ASSERT_EQ(subject.state(), State::starting);
        subject.spawned(first);
    }
}

TEST(SupervisorStartLimit, IntervalEndsToTheNanosecond) {
    for (Duration const early : {0ns, 1ns}) {
        Subject subject = limited();
        subject.exited(first, 1).spawned(first).exited(first, 1).after(1s).time().spawned(first);
        subject.after(8s - early).exited(first, 1);  // to start again in 1 s
        EXPECT_EQ(subject.state(), early == 0ns ? State::backoff : State::failed);
    }
}

TEST(SupervisorStartLimit, CountsStartsThatCameToNothing) {
    Subject subject = limited();
    subject.exited(first, 1).on(event::SpawnFailed{first, {process::SpawnStage::clone, EAGAIN}}).after(1s).time();
    EXPECT_EQ(subject.on(event::SpawnFailed{first, {process::SpawnStage::clone, EAGAIN}}).done(),
              "RunHelper 1 on_failure; ReportStartFailed 1, stage 0 errno 11, not wanted; ReportGaveUp 1, starts 3");
}

TEST(SupervisorStartLimit, EndsTheContainerIfItSaysSo) {
    Subject subject = limited(42);
    subject.exited(first, 1).spawned(first).exited(first, 1).after(1s).time().spawned(first).exited(first, 1);
    EXPECT_EQ(
        subject.done(),
        "RunHelper 1 on_failure; ReportExited 1, pid 100, status 1, run 0s, not wanted; ReportGaveUp 1, starts 3; "
        "ReportEnding 1, exit code 42; Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)");
    // what is to be done about the failure may still be done
    EXPECT_EQ(subject.exited(process(1, 1), 0).done(), "ReportExited 1:1, pid 200, status 0, run 1s, not wanted");
    EXPECT_EQ(subject.helper(first, Helper::on_failure).done(), "Finish 42");
}

TEST(SupervisorStartLimit, BeginsAnewWhenSomebodyAsks) {
    Subject subject = limited();
    auto const fail_for_good = [&] {
        subject.exited(first, 1).spawned(first).exited(first, 1).after(1s).time().spawned(first).exited(first, 1);
        ASSERT_EQ(subject.state(), State::failed);
        subject.helper(first, Helper::on_failure);
    };
    fail_for_good();
    EXPECT_EQ(subject.command(Verb::start).done(), "Spawn 1");
    subject.spawned(first);
    fail_for_good();
    std::vector<ProgramPolicy> const same{subject.supervisor.policy(ProgramId{0}), service()};
    EXPECT_EQ(subject.programs(same, false).done(), "");
    EXPECT_EQ(subject.programs(same, true).done(), "Spawn 1");
    subject.spawned(first);
    fail_for_good();
}

TEST(SupervisorStartLimit, AnotherLimitBeginsAnew) {
    Subject subject = limited();
    subject.exited(first, 1).spawned(first);
    ProgramPolicy policy = subject.supervisor.policy(ProgramId{0});
    policy.start_limit->count = 1;
    policy.count = 2;
    subject.programs({policy, service()}, false);
    EXPECT_EQ(subject.exited(first, 1).done(), "ReportExited 1, pid 100, status 1, run 0s, restart in 1s");
    subject.after(1s).time().spawned(first).exited(first, 1);
    EXPECT_EQ(subject.state(), State::failed);
    policy.start_limit.reset();
    EXPECT_EQ(subject.programs({policy, service()}).done(), "Spawn 1");
    for (int i = 0; i < 5; ++i)
        subject.spawned(first).exited(first, 1).after(1s).time();
    EXPECT_EQ(subject.state(), State::starting);
}

// The container's end.

struct CriticalCase {
    char const* name;
    Event event;
    int exit_code;
};

TEST(SupervisorEnd, CriticalProcessTakesItsCodeAlong) {
    CriticalCase const cases[] = {
        {"success", event::Exited{first, 0}, 0},
        {"exit code", event::Exited{first, 3 << 8}, 3},
        {"signal", event::Exited{first, SIGKILL}, 137},
        {"not found", event::Exited{first, 127 << 8, process::SpawnError{process::SpawnStage::execute, ENOENT}}, 127},
        {"not executable", event::Exited{first, 127 << 8, process::SpawnError{process::SpawnStage::execute, EACCES}},
         126},
    };
    for (CriticalCase const& row : cases) {
        ProgramPolicy policy = service();
        policy.restart = Restart::never;
        policy.critical = true;
        Subject subject = up({policy, service()});
        subject.on(row.event);
        EXPECT_EQ(subject.supervisor.phase(), Phase::stopping) << row.name;
        subject.exited(process(1, 1), exit_code_1);
        EXPECT_EQ(subject.actions.back(), Action{action::Finish{row.exit_code}}) << row.name;
    }
}

TEST(SupervisorEnd, CriticalProcessThatComesBackEndsNothing) {
    ProgramPolicy policy = service();
    policy.critical = true;
    Subject subject = up({policy});
    subject.exited(first, exit_code_1).spawned(first).command(Verb::stop).exited(first, 0);
    EXPECT_EQ(subject.state(), State::held);
    subject.programs({});
    EXPECT_EQ(subject.supervisor.phase(), Phase::running);
}

TEST(SupervisorEnd, FirstCauseCounts) {
    ProgramPolicy policy = service();
    policy.restart = Restart::never;
    policy.critical = true;
    policy.count = 2;
    Subject subject = up({policy});
    EXPECT_EQ(subject.exited(first, 3 << 8).done(),
              "ReportExited 1, pid 100, status 768, run 0s, not wanted; ReportEnding 1, exit code 3; "
              "Signal 2, pid 101, 15 (stop); Signal 2, pid 101, 18 (forward)");
    // asked for once: that is no hurry yet
    EXPECT_EQ(subject.stop().done(), "");
    EXPECT_FALSE(subject.supervisor.is_in_a_hurry());
    EXPECT_EQ(subject.stop().done(), "Signal 2, pid 101, 9 (kill) tree");
    EXPECT_EQ(subject.exited(process(2), 4 << 8).done(),
              "ReportExited 2, pid 101, status 1024, run 0s, not wanted; Finish 3");

    Subject asked = up({policy});
    asked.stop().exited(first, 3 << 8).exited(process(2), 0);
    EXPECT_EQ(asked.actions.back(), Action{action::Finish{0}});
    Subject chosen = up({policy});
    chosen.on(event::StopAsked{5}).exited(first, 3 << 8).exited(process(2), 0);
    EXPECT_EQ(chosen.actions.back(), Action{action::Finish{5}});
}

TEST(SupervisorEnd, StopThatFailsKeepsItsCode) {
    ProgramPolicy policy = service();
    policy.restart = Restart::never;
    policy.critical = true;
    policy.count = 2;
    Subject subject = up({policy});
    subject.exited(first, 3 << 8);
    EXPECT_EQ(subject.after(30s).time().done(), "Signal 2, pid 101, 9 (kill) tree; ReportLeft 2, pid 101; Finish 3");
}

TEST(SupervisorEnd, WhenNothingIsLeftTheFirstFailureCounts) {
    ProgramPolicy policy = of_kind(ProgramKind::one_shot);
    policy.count = 3;
    Subject subject = up({policy});
    subject.exited(process(3), 7 << 8).after(1s).exited(process(1), 5 << 8).after(1s);
    EXPECT_EQ(subject.exited(process(2), 0).done(),
              "ReportExited 2, pid 101, status 0, run 2s, not wanted; ReportEnding 3, exit code 7; Finish 7");
    Subject good = up({of_kind(ProgramKind::one_shot)});
    EXPECT_EQ(good.exited(first, 0).done(),
              "ReportExited 1, pid 100, status 0, run 0s, not wanted; ReportEnding 1, exit code 0; Finish 0");
}

TEST(SupervisorEnd, WhatWaitsForAFailureIsNothing) {
    Subject subject = up({of_kind(ProgramKind::one_shot), needing({ProgramId{0}}), needing({ProgramId{1}})});
    EXPECT_EQ(subject.exited(first, exit_code_1).done(),
              "ReportExited 1, pid 100, status 256, run 0s, not wanted; ReportEnding 1, exit code 1; Finish 1");
}

TEST(SupervisorEnd, SomethingMayStillCome) {
    for (ProgramPolicy const& other : {service(), of_kind(ProgramKind::scheduled)}) {
        Subject subject = up({of_kind(ProgramKind::one_shot), other});
        subject.exited(first, exit_code_1);
        EXPECT_EQ(subject.supervisor.phase(), Phase::running);
    }
    Subject held = up({of_kind(ProgramKind::one_shot), service()});
    held.command(Verb::stop, 1).exited(process(1, 1), 0).exited(first, exit_code_1);
    EXPECT_EQ(held.supervisor.phase(), Phase::running);
    EXPECT_EQ(held.programs({of_kind(ProgramKind::one_shot)}, false).done(), "ReportEnding 1, exit code 1; Finish 1");
}

TEST(SupervisorEnd, Pid1SweepsThenToo) {
    ProgramPolicy policy = service();
    policy.restart = Restart::never;
    policy.critical = true;
    Subject subject = up({policy}, pid_1());
    subject.exited(first, 3 << 8);
    EXPECT_EQ(subject.actions.back(), Action{action::Sweep{SIGTERM}});
    EXPECT_EQ(subject.stop().done(), "");
    EXPECT_EQ(subject.stop().done(), "Sweep 9");
    EXPECT_EQ(subject.on(event::NoChildLeft{}).done(), "Finish 3");
}

// Readiness.

TEST(SupervisorReadiness, IsToldOnce) {
    ProgramPolicy policy = service();
    policy.readiness = Readiness::notified;
    Subject subject = up({policy});
    EXPECT_EQ(subject.state(), State::activating);
    EXPECT_FALSE(subject.supervisor.is_ready());
    EXPECT_EQ(subject.after(2s).ready(first).done(), "ReportReady 1, after 2s");
    EXPECT_TRUE(subject.supervisor.is_ready());
    EXPECT_EQ(subject.ready(first).done(), "");
    EXPECT_EQ(subject.deadline(), std::nullopt);
}

TEST(SupervisorReadiness, IsProbedUntilItIsThere) {
    ProgramPolicy policy = service();
    policy.readiness = Readiness::probed;
    policy.probe_interval = 2s;
    Subject subject = up({policy});
    EXPECT_EQ(subject.done(), "ReportStarted 1, pid 100; RunHelper 1 readiness");
    EXPECT_EQ(subject.deadline(), std::nullopt);
    EXPECT_EQ(subject.after(1s).helper(first, Helper::readiness, false).done(), "");
    EXPECT_EQ(subject.deadline(), 2s);
    EXPECT_EQ(subject.after(2s).time().done(), "RunHelper 1 readiness");
    EXPECT_EQ(subject.ready(first).done(), "");  // it is not asked
    EXPECT_EQ(subject.helper(first, Helper::readiness, true).done(), "ReportReady 1, after 3s");
    EXPECT_EQ(subject.deadline(), std::nullopt);
}

TEST(SupervisorReadiness, AnOldProbeSaysNothingOfANewProcess) {
    ProgramPolicy policy = service();
    policy.readiness = Readiness::probed;
    Subject subject = up({policy});
    EXPECT_EQ(subject.exited(first, 1).done(),
              "CancelHelper 1 readiness; Spawn 1; ReportExited 1, pid 100, status 1, run 0s, restart in 0s");
    EXPECT_EQ(subject.spawned(first).done(), "ReportStarted 1, pid 100");  // one at a time
    EXPECT_EQ(subject.deadline(), 1s);
    EXPECT_EQ(subject.helper(first, Helper::readiness, true).done(), "");
    EXPECT_EQ(subject.state(), State::activating);
    EXPECT_EQ(subject.after(1s).time().done(), "RunHelper 1 readiness");
}

TEST(SupervisorReadiness, TooLateIsAFailure) {
    ProgramPolicy policy = service();
    policy.readiness = Readiness::notified;
    policy.start_timeout = 30s;
    Subject subject = up({policy});
    EXPECT_EQ(subject.after(20s).on(event::ExtendTimeout{first, 5s}).deadline(), 10s);  // never less than it had
    EXPECT_EQ(subject.on(event::ExtendTimeout{first, 15s}).deadline(), 15s);
    EXPECT_EQ(subject.after(15s).time().done(), "Signal 1, pid 100, 9 (kill) tree; ReportTimedOut 1 start");
    EXPECT_EQ(subject.ready(first).done(), "");
    subject.exited(first, SIGKILL).spawned(first).after(30s).time();
    EXPECT_EQ(subject.exited(first, 0).done(), "ReportExited 1, pid 100, status 0, run 30s, restart in 1s");
}

TEST(SupervisorReadiness, EndBeforeItIsAFailureWhateverItSays) {
    ProgramPolicy policy = service();
    policy.readiness = Readiness::notified;
    policy.restart = Restart::on_failure;
    policy.start_limit = StartLimit{1, 1h, {}};
    Subject subject = up({policy, needing({ProgramId{0}})});
    EXPECT_EQ(subject.exited(first, 0).done(),
              "ReportExited 1, pid 100, status 0, run 0s, not wanted; ReportGaveUp 1, starts 1; "
              "ReportEnding 1, exit code 1; Finish 1");
}

TEST(SupervisorReadiness, OfAOneShotIsItsSuccess) {
    ProgramPolicy policy = of_kind(ProgramKind::one_shot);
    policy.start_timeout = 1min;
    Subject subject = up({policy, needing({ProgramId{0}})});
    EXPECT_EQ(subject.state(), State::activating);
    EXPECT_EQ(subject.deadline(), 1min);
    EXPECT_EQ(subject.ready(first).done(), "");
    EXPECT_EQ(subject.exited(first, 0).done(), "ReportExited 1, pid 100, status 0, run 0s, not wanted; Spawn 1:1");
}

// Watchdog and health.

TEST(SupervisorWatchdog, BitesWhenItIsNotFed) {
    ProgramPolicy policy = service();
    policy.readiness = Readiness::notified;
    policy.watchdog = 10s;
    policy.drain = 5s;
    policy.has_pre_stop = true;
    Subject subject = up({policy});
    EXPECT_EQ(subject.on(event::WatchdogPing{first}).deadline(), std::nullopt);  // not before it is ready
    subject.ready(first).after(9s).on(event::WatchdogPing{first}).after(5s);
    EXPECT_EQ(subject.on(event::ExtendTimeout{first, 1h}).time().done(), "");
    EXPECT_EQ(subject.after(5s).time().done(),
              "Signal 1, pid 100, 6 (watchdog); Signal 1, pid 100, 18 (forward); ReportTimedOut 1 watchdog");
    EXPECT_EQ(subject.deadline(), 10s);
    EXPECT_EQ(subject.after(10s).time().done(), "Signal 1, pid 100, 9 (kill) tree");
    EXPECT_EQ(subject.exited(first, SIGKILL).done(),
              "Spawn 1; ReportExited 1, pid 100, status 9, run 29s, restart in 0s");
    EXPECT_EQ(subject.supervisor.view(first).failures, 1);
}

ProgramPolicy healthy(HealthAction action) {
    ProgramPolicy policy = service();
    policy.checks = {Health{.interval = 10s, .retries = 2, .start_period = 15s, .action = action}};
    return policy;
}

/// After so long the probe comes, and its answer.
Subject& probe(Subject& subject, Duration after, bool ok) {
    EXPECT_EQ(subject.after(after).time().done(), "RunHelper 1 health");
    return subject.helper(first, Helper::health, ok);
}

TEST(SupervisorHealth, RestartsAfterTheRetries) {
    Subject subject = up({healthy(HealthAction::restart)});
    EXPECT_EQ(probe(subject, 10s, false).done(), "");  // too young to be judged
    EXPECT_EQ(probe(subject, 10s, false).done(), "");
    EXPECT_EQ(probe(subject, 10s, true).done(), "");
    EXPECT_EQ(probe(subject, 10s, false).done(), "");
    EXPECT_EQ(subject.supervisor.view(first).bad_probes, 1);
    EXPECT_EQ(probe(subject, 10s, false).done(),
              "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); ReportUnhealthy 1, failures 2, restart");
    EXPECT_EQ(subject.exited(first, 0).done(), "Spawn 1; ReportExited 1, pid 100, status 0, run 50s, restart in 0s");
    subject.spawned(first);
    EXPECT_EQ(subject.supervisor.view(first).bad_probes, 0);
    probe(subject, 10s, false);
    probe(subject, 10s, false);
    probe(subject, 10s, false);
    EXPECT_EQ(subject.exited(first, 0).done(), "ReportExited 1, pid 100, status 0, run 30s, restart in 1s");
}

TEST(SupervisorHealth, ReportsOnceForEachIllness) {
    Subject subject = up({healthy(HealthAction::report)});
    probe(subject, 20s, false);
    EXPECT_EQ(probe(subject, 10s, false).done(), "ReportUnhealthy 1, failures 2, report");
    EXPECT_FALSE(subject.supervisor.view(first).is_ready);
    EXPECT_EQ(probe(subject, 10s, false).done(), "");
    EXPECT_EQ(probe(subject, 10s, true).done(), "ReportHealthy 1");
    EXPECT_TRUE(subject.supervisor.view(first).is_ready);
    probe(subject, 10s, false);
    EXPECT_EQ(probe(subject, 10s, false).done(), "ReportUnhealthy 1, failures 2, report");
    EXPECT_EQ(subject.state(), State::up);
}

/// Each check has its own times, count and consequence.
TEST(SupervisorHealth, HasSeveralChecks) {
    ProgramPolicy policy = service();
    policy.checks = {Health{.interval = 10s, .retries = 1, .action = HealthAction::report},
                     Health{.interval = 4s, .retries = 2, .action = HealthAction::restart}};
    Subject subject = up({policy});
    EXPECT_EQ(subject.deadline(), 4s);
    EXPECT_EQ(subject.after(4s).time().done(), "RunHelper 1 health_2");
    EXPECT_EQ(subject.after(6s).time().done(), "RunHelper 1 health");  // while the other one takes its time
    EXPECT_EQ(subject.helper(first, Helper::health, false).done(), "ReportUnhealthy 1, failures 1, report");
    EXPECT_EQ(subject.helper(first, Helper::health_2, false).done(), "");
    EXPECT_FALSE(subject.supervisor.view(first).is_ready);
    EXPECT_EQ(subject.state(), State::up);
    subject.after(4s).time();
    EXPECT_EQ(subject.helper(first, Helper::health_2, true).done(), "");  // the other one's count is its own
    EXPECT_FALSE(subject.supervisor.view(first).is_ready);
    EXPECT_EQ(subject.supervisor.view(first).bad_probes, 1);
    EXPECT_EQ(subject.after(6s).time().done(), "RunHelper 1 health; RunHelper 1 health_2");
    EXPECT_EQ(subject.helper(first, Helper::health, true).done(), "ReportHealthy 1");
    EXPECT_TRUE(subject.supervisor.view(first).is_ready);
    subject.helper(first, Helper::health_2, false).after(4s).time();
    EXPECT_EQ(subject.helper(first, Helper::health_2, false).done(),
              "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); ReportUnhealthy 1, failures 2, restart, "
              "check 1");
}

/// What was under way for a check that is gone has no meaning for the one that is left.
TEST(SupervisorHealth, ChecksComeAndGo) {
    ProgramPolicy policy = service();
    policy.checks = {Health{.interval = 10s, .retries = 1, .action = HealthAction::report},
                     Health{.interval = 4s, .retries = 1, .action = HealthAction::report}};
    Subject subject = up({policy});
    subject.after(4s).time();
    subject.helper(first, Helper::health_2, false);
    EXPECT_FALSE(subject.supervisor.view(first).is_ready);
    subject.after(4s).time();
    policy.checks = {policy.checks.front()};
    EXPECT_EQ(subject.programs({policy}).done(), "CancelHelper 1 health_2");
    EXPECT_TRUE(subject.supervisor.view(first).is_ready);
    EXPECT_EQ(subject.deadline(), 10s);
    EXPECT_EQ(subject.helper(first, Helper::health_2, false).done(), "");
    EXPECT_TRUE(subject.supervisor.view(first).is_ready);
}

TEST(SupervisorHealth, AnotherActionComesThoughTheCheckHasFailedLongAgo) {
    Subject subject = up({healthy(HealthAction::report)});
    for (int times = 0; times < 5; ++times)
        probe(subject, 10s, false);
    EXPECT_FALSE(subject.supervisor.view(first).is_ready);
    EXPECT_EQ(subject.programs({healthy(HealthAction::restart)}).done(), "");
    EXPECT_TRUE(subject.supervisor.view(first).is_ready);
    EXPECT_EQ(probe(subject, 10s, false).done(), "");
    EXPECT_EQ(probe(subject, 10s, false).done(),
              "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); ReportUnhealthy 1, failures 2, restart");
}

TEST(SupervisorHealth, FewerRetriesCountThoughMoreHaveFailed) {
    ProgramPolicy policy = healthy(HealthAction::report);
    policy.checks.front().retries = 1000;
    policy.checks.push_back(Health{.interval = 1h, .retries = 7, .action = HealthAction::restart});
    Subject subject = up({policy});
    for (int times = 0; times < 5; ++times)
        probe(subject, 10s, false);
    policy.checks.front().interval = 5s;
    subject.programs({policy});
    EXPECT_EQ(subject.supervisor.view(first).bad_probes, 4) << "the first one came too early to count";
    policy.checks.front().retries = 2;
    subject.programs({policy});
    EXPECT_EQ(probe(subject, 10s, false).done(), "");
    EXPECT_EQ(probe(subject, 5s, false).done(), "ReportUnhealthy 1, failures 2, report");
}

TEST(SupervisorHealth, WhoIsIllStaysSoWhenTheCountChanges) {
    ProgramPolicy policy = healthy(HealthAction::report);
    Subject subject = up({policy});
    for (int times = 0; times < 3; ++times)
        probe(subject, 10s, false);
    EXPECT_FALSE(subject.supervisor.is_ready(ProgramId{0}));
    for (std::uint32_t const retries : {5U, 1U}) {
        policy.checks.front().retries = retries;
        EXPECT_EQ(subject.programs({policy}).done(), "");
        EXPECT_FALSE(subject.supervisor.is_ready(ProgramId{0})) << retries;
    }
    EXPECT_EQ(probe(subject, 10s, false).done(), "") << "it has been told";
    EXPECT_EQ(probe(subject, 10s, true).done(), "ReportHealthy 1");
    EXPECT_TRUE(subject.supervisor.is_ready(ProgramId{0}));
}

TEST(SupervisorHealth, WhatIsNotReadyStopsWhatIsBoundToIt) {
    ProgramPolicy base = service();
    base.checks = {Health{.interval = 10s, .retries = 1, .action = HealthAction::report}};
    ProgramPolicy bound = service();
    bound.requires_ = bound.binds_to = {ProgramId{0}};
    Subject subject = up({base, bound});
    subject.after(10s).time();
    EXPECT_EQ(
        subject.helper(first, Helper::health, false).done(),
        "ReportUnhealthy 1, failures 1, report; Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)");
    EXPECT_EQ(subject.exited(process(1, 1), 0).done(), "ReportExited 1:1, pid 200, status 0, run 10s, restart in 0s");
    subject.after(10s).time();
    EXPECT_EQ(subject.helper(first, Helper::health, true).done(), "ReportHealthy 1; Spawn 1:1");
}

// Numbers in order, and one after the other.

ProcessId const number_two = process(0, 2);

ProgramPolicy several(std::uint32_t count) {
    ProgramPolicy policy = service();
    policy.count = count;
    policy.readiness = Readiness::notified;
    return policy;
}

TEST(SupervisorOrder, StartsOneNumberAfterTheOther) {
    ProgramPolicy policy = several(3);
    policy.is_sequential = true;
    Policies const policies{};
    Subject subject(policies);
    EXPECT_EQ(subject.programs({policy}).done(), "Spawn 1");
    EXPECT_EQ(subject.spawned(first).done(), "ReportStarted 1, pid 100");
    EXPECT_EQ(subject.ready(first).done(), "ReportReady 1, after 0s; Spawn 2");
    EXPECT_EQ(subject.on(event::SpawnFailed{number_two, {process::SpawnStage::clone, EAGAIN}}).done().substr(0, 17),
              "ReportStartFailed");
    EXPECT_EQ(subject.state(process(0, 3)), State::waiting);
    // One that is held is not waited for.
    EXPECT_EQ(subject.on(event::Command{event::Verb::stop, ProgramId{0}, ProcessNumber{2}}).done(), "Spawn 3");
}

TEST(SupervisorOrder, RestartsWithoutEverBeingAway) {
    ProgramPolicy policy = several(3);
    policy.max_unavailable = 1;
    Subject subject = up({policy});
    for (std::uint32_t number = 1; number <= 3; ++number)
        subject.ready(process(0, number));
    EXPECT_EQ(subject.on(event::Command{event::Verb::restart, ProgramId{0}}).done(),
              "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.exited(first, 0).done(), "Spawn 1; ReportExited 1, pid 100, status 0, run 0s, restart in 0s");
    EXPECT_EQ(subject.spawned(first).done(), "ReportStarted 1, pid 100");
    EXPECT_EQ(subject.state(number_two), State::up);
    EXPECT_EQ(subject.ready(first).done(),
              "ReportReady 1, after 0s; Signal 2, pid 101, 15 (stop); Signal 2, pid 101, 18 (forward)");
    // One more that is out of service by itself holds the rest up.
    EXPECT_EQ(subject.exited(number_two, 0).done().substr(0, 7), "Spawn 2");
    subject.spawned(number_two);
    subject.exited(first, 9);
    EXPECT_EQ(subject.ready(number_two).done(), "ReportReady 2, after 0s");
    EXPECT_EQ(subject.state(process(0, 3)), State::up);
    subject.time();
    // A single one that somebody names does not wait.
    EXPECT_EQ(subject.on(event::Command{event::Verb::restart, ProgramId{0}, ProcessNumber{3}}).done(),
              "Signal 3, pid 102, 15 (stop); Signal 3, pid 102, 18 (forward)");
}

TEST(SupervisorOrder, AChangeRollsToo) {
    ProgramPolicy policy = several(2);
    policy.max_unavailable = 1;
    policy.on_change = OnChange::restart;
    Subject subject = up({policy});
    subject.ready(first).ready(number_two);
    EXPECT_EQ(subject.programs({policy}).done(), "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    // Without the limit nothing is waited for any more.
    policy.max_unavailable = 0;
    policy.on_change = OnChange::keep;
    EXPECT_EQ(subject.programs({policy}).done(), "Signal 2, pid 101, 15 (stop); Signal 2, pid 101, 18 (forward)");
}

/// Who is ill does not serve, so nobody is missed while it is restarted; whatever the new checks may say of it.
TEST(SupervisorOrder, AChangeRestartsFirstWhoIsIll) {
    ProgramPolicy policy = several(2);
    policy.max_unavailable = 1;
    policy.on_change = OnChange::restart;
    policy.checks = {Health{.interval = 10s, .retries = 1, .action = HealthAction::report}};
    Subject subject = up({policy});
    subject.ready(first).ready(number_two).after(10s).time();
    subject.helper(first, Helper::health, true).helper(number_two, Helper::health, false);
    policy.checks.push_back(Health{.interval = 10s, .retries = 5, .action = HealthAction::report});
    EXPECT_EQ(subject.programs({policy}).done(), "Signal 2, pid 101, 15 (stop); Signal 2, pid 101, 18 (forward)");
    EXPECT_EQ(subject.state(first), State::up);
    EXPECT_EQ(subject.exited(number_two, 0).done().substr(0, 7), "Spawn 2");
    subject.spawned(number_two);
    EXPECT_EQ(subject.ready(number_two).done(),
              "ReportReady 2, after 0s; Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
}

/// Nobody is missed while it is restarted, so it does not wait for others, nor do these wait for its health.
TEST(SupervisorOrder, RestartsWhoBecomesIllWhileItWaits) {
    ProgramPolicy policy = several(2);
    policy.max_unavailable = 1;
    policy.checks = {Health{.interval = 10s, .retries = 1, .action = HealthAction::report}};
    Subject subject = up({policy});
    subject.ready(first).ready(number_two).after(10s).time();
    subject.helper(first, Helper::health, true);
    EXPECT_EQ(subject.command(event::Verb::restart).done(),
              "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.state(number_two), State::up);
    EXPECT_EQ(subject.helper(number_two, Helper::health, false).done(),
              "ReportUnhealthy 2, failures 1, report; Signal 2, pid 101, 15 (stop); Signal 2, pid 101, 18 (forward)");
}

TEST(SupervisorFiles, RenewOnlyWhatRuns) {
    Subject subject = up({service(), service()});
    subject.on(event::Command{event::Verb::stop, ProgramId{1}}).exited(process(1, 1), 0);
    EXPECT_EQ(subject.on(event::Command{event::Verb::renew, ProgramId{1}}).done(), "");
    EXPECT_EQ(subject.state(process(1, 1)), State::held);
    EXPECT_EQ(subject.on(event::Command{event::Verb::renew, ProgramId{0}}).done(),
              "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
}

TEST(SupervisorFiles, TellWhatIsUp) {
    ProgramPolicy policy = several(1);
    policy.is_told_of_files = true;
    Subject subject = up({policy});
    EXPECT_EQ(subject.on(event::Command{event::Verb::reload, ProgramId{0}}).done(), "");  // it could die of it
    EXPECT_EQ(subject.ready(first).done(), "ReportReady 1, after 0s; Signal 1, pid 100, 1 (reload)");
    EXPECT_EQ(subject.on(event::Command{event::Verb::reload, ProgramId{0}}).done(), "Signal 1, pid 100, 1 (reload)");
}

TEST(SupervisorHealth, EndsTheContainerIfItSaysSo) {
    Subject subject = up({healthy(HealthAction::exit)});
    probe(subject, 20s, false);
    EXPECT_EQ(probe(subject, 10s, false).done(),
              "ReportUnhealthy 1, failures 2, exit; ReportEnding 1, exit code 1; Signal 1, pid 100, 15 (stop); "
              "Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.exited(first, 0).done(), "ReportExited 1, pid 100, status 0, run 30s, not wanted; Finish 1");
}

TEST(SupervisorHealth, ProbesOneAtATime) {
    Subject subject = up({healthy(HealthAction::report)});
    subject.after(10s).time();
    EXPECT_EQ(subject.deadline(), std::nullopt);
    EXPECT_EQ(subject.after(1min).time().done(), "");
    subject.exited(first, 1).spawned(first);
    EXPECT_EQ(subject.after(10s).time().done(), "");  // the cancelled one has still not come to its end
    EXPECT_EQ(subject.deadline(), 10s);
    subject.helper(first, Helper::health, false);
    EXPECT_EQ(subject.supervisor.view(first).bad_probes, 0);
    EXPECT_EQ(subject.after(10s).time().done(), "RunHelper 1 health");
}

// Stop.

ProgramPolicy gentle() {
    ProgramPolicy policy = service();
    policy.drain = 3s;
    policy.has_pre_stop = true;
    policy.pre_stop_timeout = 5s;
    policy.stop_timeout = 4s;
    policy.stop_signal = SIGINT;
    policy.stop_scope = StopScope::tree;
    return policy;
}

TEST(SupervisorStop, TakesItsSteps) {
    Subject subject = up({gentle()});
    EXPECT_EQ(subject.command(Verb::stop).done(), "");
    EXPECT_EQ(subject.deadline(), 3s);
    EXPECT_EQ(subject.after(3s).time().done(), "RunHelper 1 pre_stop");
    EXPECT_EQ(subject.deadline(), std::nullopt);  // the shell ends it
    EXPECT_EQ(subject.after(7s).helper(first, Helper::pre_stop, false).done(),
              "Signal 1, pid 100, 2 (stop) tree; Signal 1, pid 100, 18 (forward) tree");
    EXPECT_EQ(subject.on(event::ExtendTimeout{first, 6s}).deadline(), 6s);
    EXPECT_EQ(subject.after(6s).time().done(), "Signal 1, pid 100, 9 (kill) tree");
    EXPECT_EQ(subject.exited(first, SIGKILL).done(), "ReportExited 1, pid 100, status 9, run 16s, not wanted");
    EXPECT_EQ(subject.state(), State::held);
}

/// A program whose process leaves others of its tree behind.
ProgramPolicy with_tree() {
    ProgramPolicy policy = service();
    policy.stop_scope = StopScope::tree;
    policy.kills_tree = true;
    policy.stop_timeout = 8s;
    return policy;
}
event::Exited left_behind(int status) { return {.id = first, .status = status, .leaves_rest = true}; }

TEST(SupervisorTree, HasTheTimeThatItsProcessHad) {
    Subject subject = up({with_tree()});
    EXPECT_EQ(subject.command(Verb::restart).done(),
              "Signal 1, pid 100, 15 (stop) tree; Signal 1, pid 100, 18 (forward) tree");
    EXPECT_EQ(subject.after(1s).on(left_behind(SIGTERM)).done(), "") << "all of it has got the signal already";
    EXPECT_EQ(subject.state(), State::clearing);
    EXPECT_EQ(subject.deadline(), 7s);
    EXPECT_FALSE(subject.supervisor.view(first).pid);
    EXPECT_EQ(subject.supervisor.running_count(), 1);
    EXPECT_EQ(subject.after(2s).on(event::TreeEmpty{first}).done(),
              "Spawn 1; ReportExited 1, pid 100, status 15, run 1s, restart in 0s");
    EXPECT_EQ(subject.on(event::TreeEmpty{first}).state(), State::starting) << "it is too late, and means nothing";
}

TEST(SupervisorTree, IsKilledWhenItsTimeHasPassed) {
    Subject subject = up({with_tree()});
    subject.command(Verb::stop).on(left_behind(SIGTERM));
    EXPECT_EQ(subject.deadline(), 8s);
    EXPECT_EQ(subject.after(8s).time().done(),
              "SignalRest 1, 9 (kill); ReportExited 1, pid 100, status 15, run 0s, not wanted");
    EXPECT_EQ(subject.state(), State::held);
}

TEST(SupervisorTree, IsStoppedBeforeTheRestartWhenItsProcessEndsByItself) {
    Subject subject = up({with_tree()});
    EXPECT_EQ(subject.after(60s).on(left_behind(1 << 8)).done(), "SignalRest 1, 15 (stop); SignalRest 1, 18 (forward)");
    EXPECT_EQ(subject.deadline(), 8s);
    EXPECT_EQ(subject.after(5s).on(event::TreeEmpty{first}).done(),
              "Spawn 1; ReportExited 1, pid 100, status 256, run 60s, restart in 0s");
}

TEST(SupervisorTree, OfAnotherProgramComesBackWithoutABackoff) {
    ProgramPolicy policy = with_tree();
    policy.restart = Restart::never;
    Subject subject = up({policy});
    subject.on(left_behind(1 << 8)).programs({policy});
    EXPECT_EQ(subject.state(), State::clearing);
    EXPECT_EQ(subject.on(event::TreeEmpty{first}).done(),
              "Spawn 1; ReportExited 1, pid 100, status 256, run 0s, restart in 0s");
}

/// Two trees are killed at the same time. The end of one ends the container, so that the other does not come back.
TEST(SupervisorTree, ThatIsKilledAsTheContainerEndsDoesNotComeBack) {
    ProgramPolicy critical = with_tree();
    critical.critical = true;
    critical.restart = Restart::never;
    for (std::uint32_t const last : {0U, 1U}) {
        std::vector<ProgramPolicy> policies{with_tree(), with_tree()};
        policies[last] = critical;
        Subject subject = up(policies);
        for (ProcessId const id : {first, process(1, 1)})
            subject.on(event::Exited{.id = id, .status = 1 << 8, .leaves_rest = true});
        std::string const done = subject.after(8s).time().done();
        EXPECT_EQ(subject.supervisor.phase(), SupervisorPhase::finished) << done;
        EXPECT_FALSE(done.contains("Spawn")) << done;
        EXPECT_TRUE(done.ends_with("Finish 1")) << done;
    }
}

TEST(SupervisorTree, IsKilledByASecondRequest) {
    Subject subject = up({with_tree()});
    subject.stop().on(left_behind(SIGTERM));
    EXPECT_EQ(subject.supervisor.phase(), SupervisorPhase::stopping);
    EXPECT_EQ(subject.stop().done(),
              "SignalRest 1, 9 (kill); ReportExited 1, pid 100, status 15, run 0s, not wanted; Finish 0");
}

TEST(SupervisorTree, OfAKilledProcessHasNoTime) {
    Subject subject = up({with_tree()});
    EXPECT_TRUE(subject.supervisor.gives_time_to_rest(first));
    subject.command(Verb::stop).after(8s).time();
    EXPECT_EQ(subject.state(), State::killing);
    EXPECT_FALSE(subject.supervisor.gives_time_to_rest(first));
    EXPECT_FALSE(up({service()}).supervisor.gives_time_to_rest(first));
}

TEST(SupervisorStop, SharesOutTheTimeOfTheWhole) {
    Policies policies = plain();
    policies.whole.stop_limit = 7500ms;  // 6 s until SIGKILL for 12 s of wishes
    Subject subject = up({gentle()}, policies);
    subject.stop();
    EXPECT_EQ(subject.deadline(), 1500ms);
    EXPECT_EQ(subject.after(1500ms).time().done(), "RunHelper 1 pre_stop");
    EXPECT_EQ(subject.deadline(), 2500ms);
    EXPECT_EQ(subject.after(2500ms).time().done(),
              "CancelHelper 1 pre_stop; Signal 1, pid 100, 2 (stop) tree; Signal 1, pid 100, 18 (forward) tree");
    EXPECT_EQ(subject.on(event::ExtendTimeout{first, 1h}).deadline(), 2s);
    EXPECT_EQ(subject.after(2s).time().done(), "Signal 1, pid 100, 9 (kill) tree");
    EXPECT_EQ(subject.exited(first, SIGKILL).done(), "ReportExited 1, pid 100, status 9, run 6s, not wanted");
    EXPECT_EQ(subject.helper(first, Helper::pre_stop, false).done(), "Finish 0");
}

TEST(SupervisorStop, OfAllHurriesOneThatIsUnderWay) {
    Policies policies = plain();
    policies.whole.stop_limit = 5s;
    for (Duration const before : {0s, 3s, 4s}) {
        Subject subject = up({gentle()}, policies);
        subject.command(Verb::stop).after(before).time();
        subject.stop();
        while (subject.state() != State::killing) {
            ASSERT_TRUE(subject.deadline());
            subject.after(*subject.deadline()).time();
        }
        EXPECT_LE(subject.now, TimePoint{1h} + before + 4s);
    }
}

TEST(SupervisorStop, PreStopWaitsForTheEndOfAnEarlierOne) {
    Subject subject = up({gentle()});
    subject.command(Verb::restart).after(3s).time();
    EXPECT_EQ(subject.exited(first, 0).done(),
              "CancelHelper 1 pre_stop; Spawn 1; ReportExited 1, pid 100, status 0, run 3s, restart in 0s");
    subject.spawned(first).command(Verb::restart);
    EXPECT_EQ(subject.after(3s).time().done(), "");
    EXPECT_EQ(subject.state(), State::pre_stop);
    EXPECT_EQ(subject.helper(first, Helper::pre_stop, false).done(), "RunHelper 1 pre_stop");
    EXPECT_EQ(subject.helper(first, Helper::pre_stop, true).done(),
              "Signal 1, pid 100, 2 (stop) tree; Signal 1, pid 100, 18 (forward) tree");
}

TEST(SupervisorStop, DependantsFirst) {
    // 2 needs 1, 1 comes after 0, 3 is on its own
    Subject subject = up({service(), after({ProgramId{0}}), needing({ProgramId{1}}), service()});
    EXPECT_EQ(subject.stop().done(),
              "Signal 2:1, pid 300, 15 (stop); Signal 2:1, pid 300, 18 (forward); Signal 3:1, pid 400, 15 (stop); "
              "Signal 3:1, pid 400, 18 (forward)");
    // one in the middle that is gone already changes nothing for those around it
    EXPECT_EQ(subject.exited(process(1, 1), SIGSEGV).done(),
              "ReportExited 1:1, pid 200, status 11, run 0s, not wanted");
    EXPECT_EQ(subject.state(process(0, 1)), State::up);
    EXPECT_EQ(subject.exited(process(2, 1), 0).done(),
              "ReportExited 2:1, pid 300, status 0, run 0s, not wanted; Signal 1, pid 100, 15 (stop); "
              "Signal 1, pid 100, 18 (forward)");
    subject.exited(process(0, 1), 0);
    EXPECT_EQ(subject.exited(process(3, 1), 0).done(),
              "ReportExited 3:1, pid 400, status 0, run 0s, not wanted; Finish 0");
}

TEST(SupervisorStop, EveryTurnComes) {
    // Three that may need 10 s each, and 24 s: each has 8.
    Subject subject = up({service(), after({ProgramId{0}}), after({ProgramId{1}})});
    subject.stop();
    EXPECT_EQ(subject.state(process(2, 1)), State::stopping);
    EXPECT_EQ(subject.deadline(), 8s);
    EXPECT_EQ(subject.after(8s).time().done(), "Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)");
    EXPECT_EQ(subject.deadline(), 2s);
    EXPECT_EQ(subject.after(2s).time().done(), "Signal 2:1, pid 300, 9 (kill) tree");
    EXPECT_EQ(subject.deadline(), 6s);
    EXPECT_EQ(subject.after(6s).time().done(), "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.after(8s).time().done(), "Signal 1, pid 100, 9 (kill) tree; Signal 1:1, pid 200, 9 (kill) tree");
}

TEST(SupervisorStop, TurnComesWhenItsTimeIsNeeded) {
    ProgramPolicy quick = service();
    quick.stop_timeout = 2s;
    ProgramPolicy slow = after({ProgramId{0}});
    slow.stop_timeout = 20s;
    Subject subject = up({quick, slow});
    subject.stop();
    EXPECT_EQ(subject.after(20s).time().done(), "Signal 1:1, pid 200, 9 (kill) tree");
    EXPECT_EQ(subject.deadline(), 2s);
    EXPECT_EQ(subject.after(2s).time().done(), "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.deadline(), 2s);
}

TEST(SupervisorStop, SecondOneKillsThoseWhoseTurnHasNotComeToo) {
    Subject subject = up({service(), after({ProgramId{0}})});
    subject.stop();
    EXPECT_EQ(subject.stop().done(), "Signal 1, pid 100, 9 (kill) tree; Signal 1:1, pid 200, 9 (kill) tree");
}

TEST(SupervisorStop, EndsWhatIsWatched) {
    ProgramPolicy policy = healthy(HealthAction::restart);
    policy.readiness = Readiness::notified;
    policy.watchdog = 5s;
    Subject subject = up({policy, after({ProgramId{0}})});
    subject.ready(first).on(event::WatchdogPing{first}).spawned(process(1, 1));
    subject.after(4s).on(event::WatchdogPing{first}).after(4s).on(event::WatchdogPing{first}).after(2s).time();
    ASSERT_EQ(subject.done(), "RunHelper 1 health");
    EXPECT_EQ(subject.stop().done(),
              "CancelHelper 1 health; Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)");
    EXPECT_EQ(subject.helper(first, Helper::health, false).done(), "");
    EXPECT_EQ(subject.after(9s).time().done(), "");
    EXPECT_EQ(subject.state(), State::up);
}

TEST(SupervisorStop, HelperOfAFailureHasUntilTheLatestKill) {
    ProgramPolicy policy = of_kind(ProgramKind::one_shot);
    policy.has_on_failure = true;
    Subject subject = up({policy});
    EXPECT_EQ(subject.exited(first, exit_code_1).done(),
              "RunHelper 1 on_failure; ReportExited 1, pid 100, status 256, run 0s, not wanted; "
              "ReportEnding 1, exit code 1");
    EXPECT_EQ(subject.deadline(), 24s);
    EXPECT_EQ(subject.after(24s).time().done(), "CancelHelper 1 on_failure");
    EXPECT_EQ(subject.deadline(), 6s);
    EXPECT_EQ(subject.helper(first, Helper::on_failure, false).done(), "Finish 1");
}

/// A wish for more time than there is counts as one for all of it, and leaves the others more than a moment.
TEST(SupervisorStop, AWishForADayKeepsTheOrder) {
    ProgramPolicy first_of_all = service();
    first_of_all.stop_timeout = 24h;
    ProgramPolicy last_of_all = needing({ProgramId{0}});
    last_of_all.stop_timeout = 10s;
    Policies policies = plain();
    policies.whole.stop_limit = 10s;
    Subject subject = up({first_of_all, last_of_all}, policies);
    EXPECT_EQ(subject.on(event::StopAsked{}).done(),
              "Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)");
    EXPECT_EQ(subject.after(3999ms).time().done(), "");
    EXPECT_EQ(subject.after(1ms).time().done(), "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
}

/// Nor does a drain, or a helper, that may take a day take the time of the signal.
TEST(SupervisorStop, AHelperOfADayLeavesTimeForTheSignal) {
    ProgramPolicy policy = service();
    policy.has_pre_stop = true;
    policy.pre_stop_timeout = 24h;
    policy.stop_timeout = 10s;
    Policies policies = plain();
    policies.whole.stop_limit = 10s;
    Subject subject = up({policy}, policies);
    EXPECT_EQ(subject.on(event::StopAsked{}).done(), "RunHelper 1 pre_stop");
    EXPECT_EQ(subject.after(4s).time().done(),
              "CancelHelper 1 pre_stop; Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
}

// Dependencies.

TEST(SupervisorDependencies, RequiredOnesMustBeReady) {
    ProgramPolicy database = service();
    database.count = 2;
    database.readiness = Readiness::notified;
    Subject subject = with({database, needing({ProgramId{0}})});
    EXPECT_EQ(subject.done(), "Spawn 1; Spawn 2");
    EXPECT_EQ(subject.state(process(1, 1)), State::waiting);
    subject.spawned(process(1)).spawned(process(2)).ready(process(1));
    EXPECT_EQ(subject.ready(process(2)).done(), "ReportReady 2, after 0s; Spawn 1:1");
}

ProgramPolicy bound_to(std::vector<ProgramId> ids) {
    ProgramPolicy policy = needing(ids);
    policy.binds_to = std::move(ids);
    return policy;
}

TEST(SupervisorDependencies, WhatIsBoundStopsAndStartsWithTheOther) {
    ProgramPolicy database = service();
    database.backoff.delay = 1s;
    Subject subject = up({database, bound_to({ProgramId{0}}), bound_to({ProgramId{1}}), needing({ProgramId{0}})});
    EXPECT_EQ(subject.exited(first, exit_code_1).done(),
              "Spawn 1; ReportExited 1, pid 100, status 256, run 0s, restart in 0s; "
              "Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward); "
              "Signal 2:1, pid 300, 15 (stop); Signal 2:1, pid 300, 18 (forward)");
    EXPECT_EQ(subject.exited(process(1, 1), 0).done(), "ReportExited 1:1, pid 200, status 0, run 0s, restart in 0s");
    EXPECT_EQ(subject.state(process(1, 1)), State::waiting);
    EXPECT_EQ(subject.spawned(first).done(), "ReportStarted 1, pid 100; Spawn 1:1");
    EXPECT_EQ(subject.exited(process(2, 1), 0).done(), "ReportExited 2:1, pid 300, status 0, run 0s, restart in 0s");
    EXPECT_EQ(subject.spawned(process(1, 1)).done(), "ReportStarted 1:1, pid 200; Spawn 2:1");
    EXPECT_EQ(subject.state(process(3, 1)), State::up);  // what only requires it goes on
}

TEST(SupervisorDependencies, WhatIsBoundStopsWithACommandAndIsNotHeld) {
    Subject subject = up({service(), bound_to({ProgramId{0}})});
    subject.command(Verb::stop);
    EXPECT_EQ(subject.done(),
              "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); "
              "Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)");
    subject.exited(first, 0);
    subject.exited(process(1, 1), 0);
    EXPECT_EQ(subject.state(), State::held);
    EXPECT_EQ(subject.state(process(1, 1)), State::waiting);
    EXPECT_EQ(subject.command(Verb::start).done(), "Spawn 1");
}

TEST(SupervisorDependencies, OneThatIsBoundAndStillStartsIsStoppedWhenItHas) {
    Subject subject = with({service(), bound_to({ProgramId{0}})});
    EXPECT_EQ(subject.spawned(first).done(), "ReportStarted 1, pid 100; Spawn 1:1");
    subject.exited(first, exit_code_1);
    subject.spawned(process(1, 1));
    EXPECT_EQ(subject.done(),
              "Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward); "
              "ReportStarted 1:1, pid 200");
}

TEST(SupervisorDependencies, AfterIsContentWithAnyEnd) {
    ProgramPolicy flaky = of_kind(ProgramKind::one_shot);
    Subject subject = up({flaky, after({ProgramId{0}}), needing({ProgramId{0}}), service()});
    EXPECT_EQ(subject.exited(first, exit_code_1).done(),
              "ReportExited 1, pid 100, status 256, run 0s, not wanted; Spawn 1:1");
    EXPECT_EQ(subject.state(process(2, 1)), State::waiting);
    // and then it succeeds after all
    subject.command(Verb::start).spawned(first);
    EXPECT_EQ(subject.exited(first, 0).done(), "ReportExited 1, pid 100, status 0, run 0s, not wanted; Spawn 2:1");

    Subject held = up({flaky, after({ProgramId{0}}), service()});
    held.command(Verb::stop);
    EXPECT_EQ(held.exited(first, SIGTERM).done(), "ReportExited 1, pid 100, status 15, run 0s, not wanted; Spawn 1:1");
}

TEST(SupervisorDependencies, CountNothingAndSchedulesAreThere) {
    ProgramPolicy none = service();
    none.count = 0;
    Subject subject = with({none, of_kind(ProgramKind::scheduled), needing({ProgramId{0}, ProgramId{1}})});
    EXPECT_EQ(subject.done(), "Spawn 2:1");
}

TEST(SupervisorDependencies, EveryStartWaits) {
    ProgramPolicy database = service();
    database.readiness = Readiness::notified;
    Subject subject = up({database, needing({ProgramId{0}})});
    subject.ready(first).spawned(process(1, 1)).exited(first, 1);
    EXPECT_EQ(subject.state(process(1, 1)), State::up);  // what runs is left alone
    EXPECT_EQ(subject.exited(process(1, 1), 1).done(), "ReportExited 1:1, pid 200, status 1, run 0s, restart in 0s");
    EXPECT_EQ(subject.state(process(1, 1)), State::waiting);
    EXPECT_EQ(subject.spawned(first).ready(first).done(), "ReportReady 1, after 0s; Spawn 1:1");
}

TEST(SupervisorDependencies, MayChange) {
    ProgramPolicy database = service();
    database.readiness = Readiness::notified;
    Subject subject = up({database, needing({ProgramId{0}})});
    ASSERT_EQ(subject.state(process(1, 1)), State::waiting);
    EXPECT_EQ(subject.programs({database, service()}).done(), "Spawn 1:1");
    subject.spawned(process(1, 1)).programs({database, needing({ProgramId{0}})});
    EXPECT_EQ(subject.state(process(1, 1)), State::up);
    subject.exited(process(1, 1), 1);
    EXPECT_EQ(subject.state(process(1, 1)), State::waiting);
    // a program that no longer exists is not waited for
    auto specs = std::make_shared<std::vector<ProgramSpec>>();
    specs->push_back({ProgramId{1}, service(), true});
    EXPECT_EQ(subject.on(event::ConfigurationAccepted{specs}).done(),
              "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); Spawn 1:1");
}

TEST(SupervisorDependencies, WhatStopsAgainIsNotThere) {
    ProgramPolicy database = service();
    database.readiness = Readiness::notified;
    database.on_change = OnChange::restart;
    Subject subject = up({database, service()});
    subject.ready(first);
    // 1 waits for the new one, not for the one that is about to stop
    subject.programs({database, needing({ProgramId{0}})}).exited(process(1, 1), 1);
    EXPECT_EQ(subject.state(process(1, 1)), State::waiting);
}

// Commands.

TEST(SupervisorCommand, HoldsOneOrAll) {
    ProgramPolicy policy = service();
    policy.count = 2;
    Subject subject = up({policy});
    EXPECT_EQ(subject.command(Verb::stop, 0, number_2).done(),
              "Signal 2, pid 101, 15 (stop); Signal 2, pid 101, 18 (forward)");
    subject.exited(process(2), 0);
    EXPECT_EQ(subject.programs({policy}).done(), "");  // a configuration does not let go of it
    EXPECT_EQ(subject.command(Verb::stop).done(), "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    subject.exited(process(1), 0);
    EXPECT_EQ(subject.supervisor.phase(), Phase::running);
    policy.count = 3;
    EXPECT_EQ(subject.programs({policy}).done(), "");
    EXPECT_EQ(subject.state(process(3)), State::held);
    EXPECT_EQ(subject.command(Verb::start).done(), "Spawn 1; Spawn 2; Spawn 3");
}

TEST(SupervisorCommand, ChangesItsMind) {
    Subject subject = up({service()});
    subject.command(Verb::stop).command(Verb::start);
    EXPECT_EQ(subject.exited(first, 0).done(), "Spawn 1; ReportExited 1, pid 100, status 0, run 0s, restart in 0s");
    EXPECT_EQ(subject.command(Verb::stop).command(Verb::start).spawned(first).done(), "ReportStarted 1, pid 100");
    subject.command(Verb::restart).command(Verb::stop).exited(first, 0);
    EXPECT_EQ(subject.state(), State::held);
    EXPECT_EQ(subject.command(Verb::restart).done(), "Spawn 1");
    subject.command(Verb::stop);
    EXPECT_EQ(subject.spawned(first).done(),
              "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); ReportStarted 1, pid 100");
}

TEST(SupervisorCommand, RestartKnowsNoBackoff) {
    Subject subject = up({service()});
    subject.exited(first, 1).spawned(first).exited(first, 1);
    ASSERT_EQ(subject.state(), State::backoff);
    EXPECT_EQ(subject.command(Verb::restart).done(), "Spawn 1");
    subject.spawned(first).command(Verb::restart);
    EXPECT_EQ(subject.exited(first, 1).done(), "Spawn 1; ReportExited 1, pid 100, status 1, run 0s, restart in 0s");
    EXPECT_EQ(subject.supervisor.view(first).failures, 0);
}

TEST(SupervisorCommand, RestartForgivesAFailure) {
    ProgramPolicy policy = service();
    policy.readiness = Readiness::notified;
    policy.start_timeout = 1s;
    policy.restart = Restart::never;
    Subject subject = up({policy});
    subject.after(1s).time().command(Verb::restart);
    EXPECT_EQ(subject.exited(first, SIGKILL).done(),
              "Spawn 1; ReportExited 1, pid 100, status 9, run 1s, restart in 0s");
}

TEST(SupervisorCommand, AStartForgivesTheFailureOfWhatIsBeingStopped) {
    ProgramPolicy policy = service();
    policy.readiness = Readiness::notified;
    policy.start_timeout = 1s;
    policy.restart = Restart::never;
    Subject subject = up({policy});
    subject.after(1s).time().command(Verb::stop).command(Verb::start);
    EXPECT_EQ(subject.exited(first, SIGKILL).done(),
              "Spawn 1; ReportExited 1, pid 100, status 9, run 1s, restart in 0s");
}

/// As it does a moment earlier or later.
TEST(SupervisorCommand, AChangeForgivesTheFailureOfWhatIsBeingStopped) {
    ProgramPolicy policy = service();
    policy.readiness = Readiness::notified;
    policy.start_timeout = 1s;
    policy.restart = Restart::never;
    Subject subject = up({policy});
    subject.after(1s).time().programs({policy});
    EXPECT_EQ(subject.exited(first, SIGKILL).done(),
              "Spawn 1; ReportExited 1, pid 100, status 9, run 1s, restart in 0s");

    Subject judged_anew = up({policy});
    judged_anew.after(1s).time();
    policy.start_timeout = 5s;
    judged_anew.programs({policy}, false);
    EXPECT_EQ(judged_anew.exited(first, SIGKILL).done(),
              "Spawn 1; ReportExited 1, pid 100, status 9, run 1s, restart in 0s");

    Subject unchanged = up({policy});
    unchanged.after(5s).time().programs({policy}, false);
    EXPECT_EQ(unchanged.exited(first, SIGKILL).done(),
              "ReportExited 1, pid 100, status 9, run 5s, not wanted; ReportEnding 1, exit code 137; Finish 137");
}

TEST(SupervisorCommand, SignalsWhatLives) {
    ProgramPolicy policy = service();
    policy.count = 3;
    Subject subject = up({policy, service()});
    subject.command(Verb::stop, 0, number_2).exited(process(2), 0);
    EXPECT_EQ(subject.on(event::Command{Verb::signal, ProgramId{0}, {}, SIGUSR1}).done(),
              "Signal 1, pid 100, 10 (asked); Signal 3, pid 102, 10 (asked)");
    EXPECT_EQ(subject.on(event::Command{Verb::signal, ProgramId{0}, number_2, SIGUSR1}).done(), "");
    subject.stop();
    EXPECT_EQ(subject.on(event::Command{Verb::signal, ProgramId{1}, {}, SIGUSR1}).done(),
              "Signal 1:1, pid 200, 10 (asked)");
}

TEST(SupervisorCommand, IgnoresWhatIsNotThere) {
    Subject subject = up({service()});
    for (Verb const verb : {Verb::start, Verb::stop, Verb::restart, Verb::signal}) {
        EXPECT_EQ(subject.command(verb, 7).done(), "");
        EXPECT_EQ(subject.command(verb, 0, number_2).done(), "");
    }
    subject.programs({});
    EXPECT_EQ(subject.command(Verb::restart).exited(first, 0).done(),
              "ReportExited 1, pid 100, status 0, run 0s, not wanted");
}

// Changes.

TEST(SupervisorChange, RestartsWhatHasChanged) {
    ProgramPolicy policy = service();
    policy.count = 2;
    policy.on_change = OnChange::restart;
    Subject subject = with({policy});
    subject.spawned(process(1));
    EXPECT_EQ(subject.programs({policy}, false).done(), "");
    EXPECT_EQ(subject.programs({policy}).done(), "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    // what was being started is of the old kind, too
    EXPECT_EQ(subject.spawned(process(2)).done(),
              "Signal 2, pid 101, 15 (stop); Signal 2, pid 101, 18 (forward); ReportStarted 2, pid 101");
    EXPECT_EQ(subject.exited(process(1), SIGTERM).done(),
              "Spawn 1; ReportExited 1, pid 100, status 15, run 0s, restart in 0s");
    EXPECT_EQ(subject.exited(process(2), SIGTERM).done(),
              "Spawn 2; ReportExited 2, pid 101, status 15, run 0s, restart in 0s");
    EXPECT_EQ(subject.spawned(process(1)).done(), "ReportStarted 1, pid 100");
}

TEST(SupervisorChange, SignalsOnceItIsReady) {
    ProgramPolicy policy = service();
    policy.on_change = OnChange::signal;
    policy.change_signal = SIGUSR2;
    policy.readiness = Readiness::notified;
    Subject subject = up({policy});
    EXPECT_EQ(subject.programs({policy}).done(), "");
    EXPECT_EQ(subject.ready(first).done(), "ReportReady 1, after 0s; Signal 1, pid 100, 12 (reload)");
    EXPECT_EQ(subject.programs({policy}).done(), "Signal 1, pid 100, 12 (reload)");
    EXPECT_EQ(subject.programs({policy}, false).done(), "");
}

TEST(SupervisorChange, OneShotRunsAgainOnlyIfItSaysSo) {
    for (OnChange const change : {OnChange::keep, OnChange::restart}) {
        ProgramPolicy policy = of_kind(ProgramKind::one_shot);
        policy.on_change = change;
        Subject subject = up({policy, service()});
        subject.exited(first, 0);
        EXPECT_EQ(subject.programs({policy, service()}, false).done(), "");
        EXPECT_EQ(subject.programs({policy, service()}).done(), change == OnChange::restart ? "Spawn 1" : "");
    }
}

TEST(SupervisorChange, AnotherKindMakesAFreshStart) {
    Subject subject = up({of_kind(ProgramKind::one_shot), service()});
    subject.exited(first, 0);
    EXPECT_EQ(subject.programs({service(), service()}).done(), "Spawn 1");
    subject.spawned(first);
    EXPECT_EQ(subject.programs({of_kind(ProgramKind::scheduled), service()}).done(), "");
    subject.exited(first, 0);
    EXPECT_EQ(subject.state(), State::done);
    EXPECT_EQ(subject.programs({service(), service()}).done(), "Spawn 1");
}

/// What is started is the same.
TEST(SupervisorChange, AnotherKindIsAChangeByItself) {
    Subject subject = up({of_kind(ProgramKind::one_shot), service()});
    subject.exited(first, 0);
    EXPECT_EQ(subject.programs({service(), service()}, false).done(), "Spawn 1");
}

TEST(SupervisorChange, OneThatBecomesScheduledWaitsForItsTime) {
    Subject subject = up({service(), service()});
    for (int tries = 0; tries < 3 && subject.state() != State::backoff; ++tries) {
        if (tries > 0) subject.spawned(first);
        subject.exited(first, 1);
    }
    ASSERT_EQ(subject.state(), State::backoff);
    (void)subject.done();
    EXPECT_EQ(subject.programs({of_kind(ProgramKind::scheduled), service()}).done(), "");
    EXPECT_EQ(subject.state(), State::down);
}

TEST(SupervisorChange, WhoHasFailedTriesAgainWithOtherLimits) {
    ProgramPolicy policy = service();
    policy.restart = Restart::never;
    Subject subject = up({policy, service()});
    subject.exited(first, 1);
    ASSERT_EQ(subject.state(), State::failed);
    EXPECT_EQ(subject.programs({policy, service()}, false).done(), "");
    policy.start_timeout = 77s;
    EXPECT_EQ(subject.programs({policy, service()}, false).done(), "Spawn 1");
}

TEST(SupervisorChange, WatchesAsItIsToldNow) {
    ProgramPolicy policy = service();
    policy.readiness = Readiness::notified;
    Subject subject = up({policy});
    policy.start_timeout = 10s;
    EXPECT_EQ(subject.programs({policy}).deadline(), 10s);
    policy.readiness = Readiness::probed;
    EXPECT_EQ(subject.programs({policy}).deadline(), 1s);
    EXPECT_EQ(subject.after(1s).time().done(), "RunHelper 1 readiness");
    policy.readiness = Readiness::started;
    policy.checks = {Health{}};
    EXPECT_EQ(subject.programs({policy}).done(), "CancelHelper 1 readiness");
    EXPECT_EQ(subject.state(), State::up);
    EXPECT_EQ(subject.after(10s).time().done(), "RunHelper 1 health");
    policy.checks.clear();
    EXPECT_EQ(subject.programs({policy}).done(), "CancelHelper 1 health");
    EXPECT_EQ(subject.deadline(), std::nullopt);
}

/// Who was started without a watchdog does not feed one.
TEST(SupervisorChange, AWatchdogThatIsAddedCountsFromTheNextStart) {
    ProgramPolicy policy = service();
    policy.readiness = Readiness::notified;
    Subject subject = up({policy});
    subject.ready(first);
    auto const wants = [&](Duration watchdog) {
        policy.watchdog = watchdog;
        return subject.programs({policy}).deadline();
    };
    EXPECT_EQ(wants(7s), std::nullopt);
    EXPECT_EQ(subject.on(event::WatchdogPing{first}).deadline(), std::nullopt);
    EXPECT_EQ(wants(9s), std::nullopt);
    subject.exited(first, 0).spawned(first).ready(first);
    EXPECT_EQ(subject.deadline(), 9s);
    EXPECT_EQ(wants(0s), std::nullopt);
    // A start that is under way was told what was configured when it began.
    subject.after(1min).exited(first, 0);
    EXPECT_EQ(subject.state(), State::starting);
    wants(5s);
    subject.spawned(first).ready(first);
    EXPECT_EQ(subject.deadline(), std::nullopt);
}

TEST(SupervisorChange, VanishedProgramIsIdleWhenAllOfItIsGone) {
    ProgramPolicy policy = service();
    policy.count = 2;
    policy.start_limit = StartLimit{1, 1h, {}};
    policy.has_on_failure = true;
    Subject subject = up({policy, service()});
    subject.exited(first, exit_code_1);
    EXPECT_FALSE(subject.supervisor.is_idle(ProgramId{0}));
    subject.programs({});
    EXPECT_EQ(subject.state(first), State::down);
    subject.exited(process(2), 0).exited(process(1, 1), 0);
    EXPECT_TRUE(subject.supervisor.is_idle(ProgramId{1}));
    EXPECT_FALSE(subject.supervisor.is_idle(ProgramId{0}));  // its helper
    subject.helper(first, Helper::on_failure);
    EXPECT_TRUE(subject.supervisor.is_idle(ProgramId{0}));
    EXPECT_TRUE(subject.supervisor.is_idle(ProgramId{9}));
    // another one in its place has nothing of it
    EXPECT_EQ(subject.programs({policy}).done(), "Spawn 1; Spawn 2");
    EXPECT_EQ(subject.supervisor.view(first).starts, 1);
}

TEST(SupervisorChange, AProgramThatComesBackIsNotHeldByACommandForTheOldOne) {
    Subject subject = up({service(), service()});
    subject.command(Verb::stop).programs({});
    subject.programs({service(), service()});
    EXPECT_EQ(subject.exited(first, 0).done(), "Spawn 1; ReportExited 1, pid 100, status 0, run 0s, restart in 0s");

    ProgramPolicy undone = of_kind(ProgramKind::one_shot);
    undone.has_on_stop = true;
    Subject undoing = up({undone, service()});
    undoing.exited(first, 0).command(Verb::stop);
    EXPECT_EQ(undoing.state(), State::undoing);
    undoing.programs({}).programs({undone, service()});
    EXPECT_EQ(undoing.helper(first, Helper::on_stop).done(), "Spawn 1");

    // Of a program that is held as a whole, its numbers stay so.
    ProgramPolicy policy = service();
    policy.count = 2;
    Subject lowered = up({policy});
    lowered.command(Verb::stop).programs({service()});
    lowered.programs({policy}).exited(process(2), 0);
    EXPECT_EQ(lowered.state(process(2)), State::held);
}

// Schedules.

TEST(SupervisorSchedule, TakesTheLowestFreePlaceOrNone) {
    ProgramPolicy policy = of_kind(ProgramKind::scheduled);
    policy.count = 2;
    Subject subject = with({policy});
    event::ScheduleDue const due{ProgramId{0}};
    EXPECT_EQ(subject.done(), "");
    EXPECT_EQ(subject.on(due).done(), "Spawn 1");
    EXPECT_EQ(subject.on(due).done(), "Spawn 2");
    EXPECT_EQ(subject.on(due).done(), "ReportSkipped 0");
    subject.spawned(process(1)).spawned(process(2)).exited(process(1), exit_code_1);
    EXPECT_EQ(subject.state(process(1)), State::failed);
    EXPECT_EQ(subject.on(due).done(), "Spawn 1");
    EXPECT_EQ(subject.supervisor.phase(), Phase::running);
    EXPECT_EQ(subject.on(event::ScheduleDue{ProgramId{5}}).done(), "");
}

TEST(SupervisorSchedule, RetriesARunButNotTheSuccessfulOne) {
    ProgramPolicy policy = of_kind(ProgramKind::scheduled, Restart::on_failure);
    policy.critical = true;
    policy.start_limit = StartLimit{2, 1h, {}};
    Subject subject = with({policy});
    event::ScheduleDue const due{ProgramId{0}};
    for (int i = 0; i < 3; ++i) {  // a run that is due is not a restart
        subject.on(due).spawned(first).exited(first, 0);
        EXPECT_EQ(subject.state(), State::done);
    }
    subject.on(due).spawned(first);
    EXPECT_EQ(subject.exited(first, exit_code_1).done(),
              "Spawn 1; ReportExited 1, pid 100, status 256, run 0s, restart in 0s");
    EXPECT_EQ(subject.on(due).done(), "ReportSkipped 0");
    EXPECT_EQ(subject.spawned(first).exited(first, exit_code_1).done(),
              "ReportExited 1, pid 100, status 256, run 0s, not wanted; ReportGaveUp 1, starts 2; "
              "ReportEnding 1, exit code 1; Finish 1");
}

TEST(SupervisorSchedule, AMissedRunComesOnceWhenAPlaceIsFree) {
    ProgramPolicy policy = of_kind(ProgramKind::scheduled);
    policy.makes_up = true;
    Subject subject = with({policy});
    event::ScheduleDue const due{ProgramId{0}};
    subject.on(due).spawned(first);
    EXPECT_EQ(subject.on(due).done(), "");
    EXPECT_EQ(subject.on(due).done(), "ReportSkipped 0");  // one is enough
    EXPECT_TRUE(Supervisor({}, subject.supervisor.state()).state() == subject.supervisor.state());
    EXPECT_EQ(subject.exited(first, 0).done(), "ReportExited 1, pid 100, status 0, run 0s, not wanted; Spawn 1");
    EXPECT_EQ(subject.spawned(first).exited(first, 0).done(), "ReportExited 1, pid 100, status 0, run 0s, not wanted");
    EXPECT_EQ(subject.on(due).spawned(first).on(due).command(Verb::stop).done(),
              "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.exited(first, 0).done(), "ReportExited 1, pid 100, status 0, run 0s, not wanted");
}

// How long a run may take, and what follows its end.

TEST(SupervisorRun, OneThatTakesTooLongIsStoppedAndHasFailed) {
    ProgramPolicy policy = of_kind(ProgramKind::one_shot, Restart::on_failure);
    policy.run_timeout = 5s;
    policy.stop_timeout = 2s;
    Subject subject = with({policy, service()});
    subject.spawned(first);
    EXPECT_EQ(subject.after(4999ms).time().done(), "");
    EXPECT_EQ(subject.after(1ms).time().done(),
              "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); ReportTimedOut 1 run");
    EXPECT_EQ(subject.supervisor.view(first).fault, Fault::run_timeout);
    EXPECT_EQ(subject.after(2s).time().done(), "Signal 1, pid 100, 9 (kill) tree");
    EXPECT_EQ(subject.exited(first, SIGKILL).done(),
              "Spawn 1; ReportExited 1, pid 100, status 9, run 7s, restart in 0s");
    EXPECT_EQ(subject.spawned(first).after(1s).exited(first, 0).done(),
              "ReportExited 1, pid 100, status 0, run 1s, not wanted");
    EXPECT_EQ(subject.after(1min).time().done(), "");
}

TEST(SupervisorRun, SuccessHasItsHelper) {
    ProgramPolicy policy = of_kind(ProgramKind::scheduled);
    policy.has_on_success = policy.has_on_failure = true;
    Subject subject = with({policy});
    event::ScheduleDue const due{ProgramId{0}};
    EXPECT_EQ(subject.on(due).spawned(first).exited(first, 0).done(),
              "RunHelper 1 on_success; ReportExited 1, pid 100, status 0, run 0s, not "
              "wanted");
    // Two more, while the first is told: one more is told.
    subject.on(due).spawned(first).exited(first, 0).on(due).spawned(first).exited(first, 0);
    EXPECT_EQ(subject.helper(first, Helper::on_success).done().ends_with("RunHelper 1 on_success"), true);
    EXPECT_EQ(subject.helper(first, Helper::on_success).done(), "");
    EXPECT_EQ(subject.on(due).spawned(first).exited(first, exit_code_1).done(),
              "RunHelper 1 on_failure; ReportExited 1, pid 100, status 256, run 0s, "
              "not wanted");
}

// What a one-shot did is undone.

ProgramPolicy undoable(std::vector<ProgramId> requires_ = {}) {
    ProgramPolicy policy = of_kind(ProgramKind::one_shot);
    policy.has_on_stop = true;
    policy.on_stop_timeout = 3s;
    policy.requires_ = std::move(requires_);
    return policy;
}

TEST(SupervisorUndo, TheContainersEndUndoesInReverseOrder) {
    Subject subject = with({undoable(), undoable({ProgramId{0}}), needing({ProgramId{1}})});
    subject.spawned(first).exited(first, 0).spawned(process(1, 1)).exited(process(1, 1), 0).spawned(process(2, 1));
    EXPECT_EQ(subject.stop().done(), "Signal 2:1, pid 300, 15 (stop); Signal 2:1, pid 300, 18 (forward)");
    EXPECT_EQ(subject.exited(process(2, 1), 0).done(),
              "ReportExited 2:1, pid 300, status 0, run 0s, not wanted; RunHelper 1:1 on_stop");
    EXPECT_EQ(subject.state(process(1, 1)), State::undoing);
    EXPECT_EQ(subject.helper(process(1, 1), Helper::on_stop).done(), "RunHelper 1 on_stop");
    EXPECT_EQ(subject.helper(first, Helper::on_stop, false).done(), "Finish 0");
}

TEST(SupervisorUndo, NoLongerThanThereIsTime) {
    Subject subject = with({undoable(), undoable()});
    subject.spawned(first).exited(first, 0).spawned(process(1, 1));
    EXPECT_EQ(subject.stop().done(),
              "RunHelper 1 on_stop; Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)");
    EXPECT_EQ(subject.stop().done(), "CancelHelper 1 on_stop; Signal 1:1, pid 200, 9 (kill) tree");
    EXPECT_EQ(subject.state(first), State::down);
    subject.exited(process(1, 1), SIGKILL);
    EXPECT_EQ(subject.helper(first, Helper::on_stop, false).done(), "Finish 0");
}

/// Before what it serves has ended, it is not undone for that it may take a day itself.
TEST(SupervisorUndo, ThatMayTakeADayWaitsForItsTurn) {
    ProgramPolicy data = undoable();
    data.on_stop_timeout = 24h;
    Subject subject = with({data, needing({ProgramId{0}}), needing({ProgramId{1}})});
    subject.spawned(first).exited(first, 0).spawned(process(1, 1)).spawned(process(2, 1));
    EXPECT_EQ(subject.stop().done(), "Signal 2:1, pid 300, 15 (stop); Signal 2:1, pid 300, 18 (forward)");
    EXPECT_EQ(subject.after(4s).time().done(), "");  // of 24 s, for a chain of 30 s, 10 s and 10 s
    EXPECT_EQ(subject.exited(process(2, 1), 0).done(),
              "ReportExited 2:1, pid 300, status 0, run 4s, not wanted; Signal 1:1, pid 200, 15 (stop); "
              "Signal 1:1, pid 200, 18 (forward)");
    EXPECT_EQ(subject.exited(process(1, 1), 0).done(),
              "ReportExited 1:1, pid 200, status 0, run 4s, not wanted; RunHelper 1 on_stop");
}

TEST(SupervisorUndo, WhatIsNotWantedAnyMoreWaitsForAllThatDependsOnItAndLeaves) {
    std::vector<ProgramPolicy> const wanted{undoable(), undoable({ProgramId{0}}), needing({ProgramId{1}})};
    std::vector<ProgramPolicy> none = wanted;
    for (ProgramPolicy& policy : none)
        policy.count = 0;
    for (std::vector<ProgramPolicy> const& later : {std::vector<ProgramPolicy>{}, none}) {
        Subject subject = with(wanted);
        subject.spawned(first).exited(first, 0).spawned(process(1, 1)).exited(process(1, 1), 0).spawned(process(2, 1));
        EXPECT_EQ(subject.programs(later).done(), "Signal 2:1, pid 300, 15 (stop); Signal 2:1, pid 300, 18 (forward)");
        EXPECT_EQ(subject.state(first), State::done);
        EXPECT_EQ(subject.exited(process(2, 1), 0).done(),
                  "ReportExited 2:1, pid 300, status 0, run 0s, not wanted; RunHelper 1:1 on_stop");
        EXPECT_EQ(subject.state(first), State::done);
        EXPECT_EQ(subject.helper(process(1, 1), Helper::on_stop).done(), "RunHelper 1 on_stop");
        EXPECT_EQ(subject.helper(first, Helper::on_stop).state(), State::down);
    }
}

/// A configuration has sent its user away; a stop of all comes while that one is still there.
TEST(SupervisorUndo, TheContainersEndWaitsForWhatIsOnItsWayOut) {
    std::vector<ProgramPolicy> const wanted{undoable(), needing({ProgramId{0}})};
    for (std::vector<ProgramPolicy> const& later : {std::vector<ProgramPolicy>{}, {undoable()}}) {
        Subject subject = with(wanted);
        subject.spawned(first).exited(first, 0).spawned(process(1, 1));
        EXPECT_EQ(subject.programs(later, false).done(),
                  "Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)");
        EXPECT_EQ(subject.stop().done(), "");
        EXPECT_EQ(subject.state(first), State::done);
        EXPECT_EQ(subject.exited(process(1, 1), 0).done(),
                  "ReportExited 1:1, pid 200, status 0, run 0s, not wanted; RunHelper 1 on_stop");
        EXPECT_EQ(subject.helper(first, Helper::on_stop, false).done(), "Finish 0");
    }
}

TEST(SupervisorUndo, WhatIsWantedAgainInTimeIsNotUndone) {
    std::vector<ProgramPolicy> const wanted{undoable(), needing({ProgramId{0}})};
    Subject subject = with(wanted);
    subject.spawned(first).exited(first, 0).spawned(process(1, 1));
    EXPECT_EQ(subject.programs({}).programs(wanted, false).done(), "");
    EXPECT_EQ(subject.state(first), State::done);
    EXPECT_EQ(subject.exited(process(1, 1), 0).done(),
              "ReportExited 1:1, pid 200, status 0, run 0s, restart in 0s; Spawn 1:1");
}

TEST(SupervisorUndo, WhatComesBackAsAnotherOneRuns) {
    std::vector<ProgramPolicy> const wanted{undoable(), needing({ProgramId{0}})};
    Subject subject = with(wanted);
    subject.spawned(first).exited(first, 0).spawned(process(1, 1));
    EXPECT_EQ(subject.programs({}).programs(wanted).done(), "Spawn 1");
    EXPECT_EQ(subject.exited(process(1, 1), 0).done(), "ReportExited 1:1, pid 200, status 0, run 0s, restart in 0s");
    EXPECT_EQ(subject.spawned(first).exited(first, 0).done(),
              "ReportExited 1, pid 100, status 0, run 0s, not wanted; Spawn 1:1");
}

TEST(SupervisorUndo, ByCommandAndByRemoval) {
    Subject subject = with({undoable(), service()});
    subject.spawned(first).exited(first, 0).spawned(process(1, 1));
    EXPECT_EQ(subject.command(Verb::stop).done(), "RunHelper 1 on_stop");
    EXPECT_EQ(subject.command(Verb::stop).done(), "");
    EXPECT_EQ(subject.helper(first, Helper::on_stop).state(), State::held);
    EXPECT_EQ(subject.command(Verb::start).spawned(first).exited(first, 0).command(Verb::restart).state(),
              State::undoing);
    EXPECT_EQ(subject.done(), "RunHelper 1 on_stop");
    EXPECT_EQ(subject.helper(first, Helper::on_stop).done(), "Spawn 1");
    subject.spawned(first).exited(first, 0);
    EXPECT_EQ(subject.programs({}).state(), State::undoing);
    EXPECT_FALSE(subject.supervisor.is_idle(ProgramId{0}));
    EXPECT_EQ(subject.helper(first, Helper::on_stop).state(), State::down);
    EXPECT_TRUE(subject.supervisor.is_idle(ProgramId{0}));
}

// Several signals.

ProgramPolicy with_steps() {
    ProgramPolicy policy = service();
    policy.stop_steps = {{SIGTERM, 2s}, {SIGINT, 0s}, {SIGQUIT, 1s}};
    policy.stop_timeout = 3s;
    return policy;
}

TEST(SupervisorStopSteps, EachHasItsTimeAndKillFollows) {
    Subject subject = up({with_steps(), service()});
    EXPECT_EQ(subject.command(Verb::stop).done(), "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.after(1999ms).time().done(), "");
    EXPECT_EQ(subject.after(1ms).time().done(), "Signal 1, pid 100, 2 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.time().done(), "Signal 1, pid 100, 3 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_TRUE(Supervisor({}, subject.supervisor.state()).state() == subject.supervisor.state());
    EXPECT_EQ(subject.after(1s).time().done(), "Signal 1, pid 100, 9 (kill) tree");
    subject.exited(first, SIGKILL).command(Verb::start).spawned(first);
    EXPECT_EQ(subject.command(Verb::stop).done(), "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
}

TEST(SupervisorStopSteps, ShareTheTimeOfAStopOfAll) {
    Policies policies = plain();
    policies.whole.stop_limit = 1875ms;  // SIGKILL after 1.5 s, and the first step counts as one of 1.875
    Subject subject(policies);
    subject.programs({with_steps()}).spawned(first);
    subject.stop();
    EXPECT_EQ(subject.after(978ms).time().done(), "");
    EXPECT_EQ(subject.after(1ms).time().done(), "Signal 1, pid 100, 2 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.time().done(), "Signal 1, pid 100, 3 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.after(521ms).time().done(), "Signal 1, pid 100, 9 (kill) tree");
}

TEST(SupervisorMain, AStopEndsWithItsExitCode) {
    ProgramPolicy policy = service();
    policy.is_main = policy.critical = true;
    policy.restart = Restart::never;
    for (int const status : {0, 3 << 8, SIGTERM}) {
        Subject subject = up({policy});
        int const code = status == SIGTERM ? 143 : status >> 8;
        EXPECT_TRUE(subject.stop().exited(first, status).done().ends_with("Finish " + std::to_string(code)));
    }
}

TEST(SupervisorSchedule, WaitsForWhatItNeeds) {
    ProgramPolicy policy = of_kind(ProgramKind::scheduled);
    policy.requires_ = {ProgramId{0}};
    Subject subject = with({service(), policy});
    EXPECT_EQ(subject.on(event::ScheduleDue{ProgramId{1}}).done(), "");
    EXPECT_EQ(subject.state(process(1, 1)), State::waiting);
    EXPECT_EQ(subject.on(event::ScheduleDue{ProgramId{1}}).done(), "ReportSkipped 1");
    EXPECT_EQ(subject.spawned(first).done(), "ReportStarted 1, pid 100; Spawn 1:1");
}

TEST(SupervisorSchedule, StopsAndRunsByCommand) {
    ProgramPolicy policy = of_kind(ProgramKind::scheduled);
    policy.count = 2;
    Subject subject = with({policy});
    event::ScheduleDue const due{ProgramId{0}};
    EXPECT_EQ(subject.command(Verb::stop).on(due).done(), "");  // held: nothing overlaps, every time it is due
    EXPECT_EQ(subject.on(due).done(), "");
    EXPECT_EQ(subject.command(Verb::start).done(), "Spawn 1");  // a run, and its schedule goes on
    EXPECT_EQ(subject.on(due).done(), "Spawn 2");
    subject.spawned(process(1)).spawned(process(2)).exited(process(2), 0);
    EXPECT_EQ(subject.command(Verb::restart).done(), "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.exited(process(1), SIGTERM).done(),
              "Spawn 1; ReportExited 1, pid 100, status 15, run 0s, restart in 0s");
    EXPECT_EQ(subject.command(Verb::start, 0, number_2).done(), "Spawn 2");
    EXPECT_EQ(subject.command(Verb::start, 0, number_2).done(), "ReportSkipped 0");
}

TEST(SupervisorSchedule, IsSkippedForWhatRunsNotForWhatIsHeld) {
    ProgramPolicy policy = of_kind(ProgramKind::scheduled);
    policy.count = 2;
    Subject subject = with({policy});
    event::ScheduleDue const due{ProgramId{0}};
    subject.on(due).spawned(process(1)).command(Verb::stop, 0, number_2);
    EXPECT_EQ(subject.state(process(2)), State::held);
    EXPECT_EQ(subject.on(due).done(), "ReportSkipped 0");  // the other one runs
    EXPECT_EQ(subject.command(Verb::stop).done(), "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.on(due).done(), "");  // will be held when it has ended
    subject.exited(process(1), SIGTERM);
    EXPECT_EQ(subject.state(process(1)), State::held);
    EXPECT_EQ(subject.on(due).done(), "");
}

// Auxiliary programs: what serves the launcher itself.

ProgramPolicy auxiliary() {
    ProgramPolicy policy = service();
    policy.auxiliary = true;
    return policy;
}

ProgramPolicy auxiliary_of_kind(ProgramKind kind) {
    ProgramPolicy policy = of_kind(kind);
    policy.auxiliary = true;
    return policy;
}

constexpr ProcessId second = process(1, 1);

TEST(SupervisorAuxiliary, CountsForNothing) {
    ProgramPolicy silent = auxiliary();
    silent.count = 2;
    silent.readiness = Readiness::notified;
    Subject subject = up({silent, service()});
    EXPECT_TRUE(subject.supervisor.is_ready());
    EXPECT_EQ(subject.supervisor.running_count(), 1);
    // of itself there is everything to tell
    EXPECT_FALSE(subject.supervisor.is_ready(ProgramId{0}));
    EXPECT_EQ(subject.supervisor.view(process(2)).pid, Pid{101});
    EXPECT_EQ(subject.exited(second, exit_code_1).supervisor.running_count(), 0);
    EXPECT_FALSE(subject.supervisor.is_ready());
}

TEST(SupervisorAuxiliary, GetsNoSignalThatIsPassedOn) {
    Subject subject = up({auxiliary(), service(), auxiliary()});
    EXPECT_EQ(subject.on(event::SignalReceived{SIGUSR1}).done(), "Signal 1:1, pid 200, 10 (forward)");
    EXPECT_EQ(subject.on(event::Command{Verb::signal, ProgramId{2}, {}, SIGUSR1}).done(),
              "Signal 2:1, pid 300, 10 (asked)");
    subject.programs({});
    EXPECT_EQ(subject.on(event::SignalReceived{SIGUSR1}).done(), "Signal 1:1, pid 200, 10 (forward)");
}

TEST(SupervisorAuxiliary, ObeysCommandsAndItsPolicy) {
    ProgramPolicy policy = auxiliary();
    policy.backoff.delay = 3s;
    Subject subject = up({policy});
    EXPECT_EQ(subject.command(Verb::stop).done(), "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    subject.exited(first, 0);
    EXPECT_EQ(subject.state(), State::held);
    EXPECT_EQ(subject.command(Verb::start).spawned(first).exited(first, exit_code_1).done(),
              "Spawn 1; ReportExited 1, pid 100, status 256, run 0s, restart in 0s");
    EXPECT_EQ(subject.spawned(first).exited(first, exit_code_1).done(),
              "ReportExited 1, pid 100, status 256, run 0s, restart in 3s");
    EXPECT_EQ(subject.after(3s).time().done(), "Spawn 1");
}

TEST(SupervisorAuxiliary, WhateverBecomesOfItTheContainerGoesOn) {
    ProgramPolicy limited = auxiliary();
    limited.start_limit = StartLimit{1, 1h, 7};
    ProgramPolicy ill = auxiliary();
    ill.checks = {Health{.interval = 1s, .retries = 1, .action = HealthAction::exit}};
    ProgramPolicy critical = auxiliary_of_kind(ProgramKind::one_shot);
    critical.critical = true;
    Subject subject = up({limited, ill, critical, service()});
    EXPECT_EQ(subject.exited(first, exit_code_1).done(),
              "ReportExited 1, pid 100, status 256, run 0s, not wanted; ReportGaveUp 1, starts 1");
    subject.after(1s).time();
    EXPECT_EQ(subject.helper(second, Helper::health, false).done(), "ReportUnhealthy 1:1, failures 1, exit");
    EXPECT_EQ(subject.exited(process(2, 1), exit_code_1).done(),
              "ReportExited 2:1, pid 300, status 256, run 1s, not wanted");
    EXPECT_EQ(subject.supervisor.phase(), Phase::running);
}

TEST(SupervisorAuxiliary, DoesNotKeepTheContainer) {
    Subject subject = up({auxiliary(), of_kind(ProgramKind::one_shot)});
    EXPECT_EQ(subject.exited(second, 3 << 8).done(),
              "ReportExited 1:1, pid 200, status 768, run 0s, not wanted; ReportEnding 1:1, exit code 3; "
              "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.exited(first, 9 << 8).done(),
              "ReportExited 1, pid 100, status 2304, run 0s, not wanted; Finish 3");
}

TEST(SupervisorAuxiliary, KeepsItNeitherHeldNorInBackoffNorByASchedule) {
    ProgramPolicy policy = of_kind(ProgramKind::one_shot);
    Subject subject = up({auxiliary(), auxiliary(), auxiliary_of_kind(ProgramKind::scheduled), policy});
    subject.command(Verb::stop, 0).exited(first, 0);
    subject.exited(second, exit_code_1).spawned(second).exited(second, exit_code_1);
    ASSERT_EQ(subject.state(first), State::held);
    ASSERT_EQ(subject.state(second), State::backoff);
    EXPECT_EQ(subject.exited(process(3, 1), 0).done(),
              "ReportExited 3:1, pid 400, status 0, run 0s, not wanted; ReportEnding 3:1, exit code 0; Finish 0");
}

/// Its end is not the one that is reported, though it came first and was bad.
TEST(SupervisorAuxiliary, DoesNotGiveItsExitCode) {
    Subject subject = up({auxiliary_of_kind(ProgramKind::one_shot), of_kind(ProgramKind::one_shot)});
    EXPECT_EQ(subject.exited(first, 3 << 8).done(), "ReportExited 1, pid 100, status 768, run 0s, not wanted");
    EXPECT_EQ(subject.after(1s).exited(second, 0).done(),
              "ReportExited 1:1, pid 200, status 0, run 1s, not wanted; ReportEnding 1:1, exit code 0; Finish 0");
}

TEST(SupervisorAuxiliary, WithNothingElseTheContainerWaitsForBetter) {
    ProgramPolicy none = service();
    none.count = 0;
    Subject subject = up({auxiliary_of_kind(ProgramKind::one_shot), none});
    EXPECT_EQ(subject.exited(first, exit_code_1).done(), "ReportExited 1, pid 100, status 256, run 0s, not wanted");
    EXPECT_EQ(subject.supervisor.phase(), Phase::running);
    EXPECT_EQ(subject.programs({auxiliary_of_kind(ProgramKind::one_shot)}, false).done(), "");
    EXPECT_EQ(subject.programs({}).done(), "");
    EXPECT_EQ(subject.programs({auxiliary(), of_kind(ProgramKind::one_shot)}).done(), "Spawn 1; Spawn 1:1");
    subject.spawned(first).spawned(second);
    EXPECT_EQ(subject.exited(second, 0).actions.at(1), (Action{action::ReportEnding{second, 0}}));
}

TEST(SupervisorAuxiliary, StopsLast) {
    Subject subject = up({auxiliary(), service(), after({ProgramId{1}}), auxiliary()}, pid_1());
    EXPECT_EQ(subject.stop().done(), "Signal 2:1, pid 300, 15 (stop); Signal 2:1, pid 300, 18 (forward)");
    EXPECT_EQ(subject.exited(process(2, 1), 0).done(),
              "ReportExited 2:1, pid 300, status 0, run 0s, not wanted; "
              "Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)");
    EXPECT_EQ(subject.exited(second, 0).done(),
              "ReportExited 1:1, pid 200, status 0, run 0s, not wanted; "
              "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward); "
              "Signal 3:1, pid 400, 15 (stop); Signal 3:1, pid 400, 18 (forward)");
    subject.exited(first, 0);
    EXPECT_EQ(subject.exited(process(3, 1), 0).done(),
              "ReportExited 3:1, pid 400, status 0, run 0s, not wanted; Sweep 15");
}

/// Also after such as the configuration has not any more, and after starts that are under way.
TEST(SupervisorAuxiliary, StopsAfterAllThatIsThere) {
    ProgramPolicy two = service();
    two.count = 2;
    Subject subject = up({auxiliary(), service(), service()});
    subject.programs({auxiliary(), two}, false);
    ASSERT_EQ(subject.state(process(1, 2)), State::starting);
    ASSERT_EQ(subject.state(process(2, 1)), State::stopping);
    subject.stop().exited(second, 0).on(event::SpawnFailed{process(1, 2), {process::SpawnStage::clone, EAGAIN}});
    EXPECT_EQ(subject.state(first), State::up);
    subject.exited(process(2, 1), 0);
    EXPECT_EQ(subject.state(first), State::stopping);
}

TEST(SupervisorAuxiliary, HasItsShareOfTheStop) {
    ProgramPolicy agent = auxiliary();
    agent.stop_timeout = 2s;
    ProgramPolicy below = auxiliary();
    below.stop_timeout = 3s;
    agent.after = {ProgramId{2}};
    Subject subject = up({agent, service(), below});
    EXPECT_EQ(subject.stop().deadline(), 10s);  // SIGKILL of the service
    subject.after(10s).time();
    EXPECT_EQ(subject.state(second), State::killing);
    // 24 s less the 5 s that both may need: then it is told, though the service is still there
    EXPECT_EQ(subject.deadline(), 9s);
    EXPECT_EQ(subject.after(9s).time().done(), "Signal 1, pid 100, 15 (stop); Signal 1, pid 100, 18 (forward)");
    EXPECT_EQ(subject.deadline(), 2s);
    EXPECT_EQ(subject.after(2s).time().done(),
              "Signal 2:1, pid 300, 15 (stop); Signal 2:1, pid 300, 18 (forward); "
              "Signal 1, pid 100, 9 (kill) tree");
}

/// Of the others, what waits begins early enough that time remains for the auxiliary one.
TEST(SupervisorAuxiliary, TakesItsShareFromTheOthers) {
    ProgramPolicy agent = auxiliary();
    agent.stop_timeout = 6s;
    ProgramPolicy upper = after({ProgramId{1}});
    upper.stop_timeout = 1h;
    upper.drain = 1h;
    Subject subject = up({agent, service(), upper});
    // 24 s of SIGKILL at the latest, and a chain of 2 h, which count as 30 s, of 10 s and of 6 s
    double const whole = 30 + 10 + 6;
    subject.stop();
    SupervisorState const state = subject.supervisor.state();
    auto const turn = [&](std::size_t program) {
        return std::chrono::duration<double>(state.programs[program].stop_at - subject.now).count();
    };
    EXPECT_NEAR(turn(1), 24 * 30 / whole, 1e-6);
    EXPECT_NEAR(turn(0), 24 * 40 / whole, 1e-6);
}

TEST(SupervisorAuxiliary, IsKilledInAHurryLikeAnyOther) {
    Subject subject = up({auxiliary(), service()});
    EXPECT_EQ(subject.stop().stop().done(), "Signal 1, pid 100, 9 (kill) tree; Signal 1:1, pid 200, 9 (kill) tree");
    EXPECT_EQ(subject.after(30s).time().done(), "ReportLeft 1, pid 100; ReportLeft 1:1, pid 200; Finish 1");
}

TEST(SupervisorAuxiliary, MayBecomeOneAndCeaseToBeOne) {
    ProgramPolicy agent = auxiliary_of_kind(ProgramKind::one_shot);
    Subject subject = up({agent, service()});
    subject.exited(first, 3 << 8);
    agent.auxiliary = false;
    EXPECT_EQ(subject.programs({agent, auxiliary()}, false).done(),
              "ReportEnding 1, exit code 3; Signal 1:1, pid 200, 15 (stop); Signal 1:1, pid 200, 18 (forward)");
}

// Helpers of a failure.

TEST(SupervisorHelper, OfAFailureRunsForEachOne) {
    ProgramPolicy policy = of_kind(ProgramKind::one_shot);
    policy.has_on_failure = true;
    Subject subject = up({policy, service()});
    subject.exited(first, exit_code_1).command(Verb::start).spawned(first);
    EXPECT_EQ(subject.exited(first, exit_code_1).done(), "ReportExited 1, pid 100, status 256, run 0s, not wanted");
    EXPECT_EQ(subject.helper(first, Helper::on_failure).done(), "RunHelper 1 on_failure");
    EXPECT_EQ(subject.helper(first, Helper::on_failure).done(), "");
}

// What there is to tell.

TEST(SupervisorView, TellsOfAProcess) {
    ProgramPolicy policy = service();
    Subject subject = with({policy});
    ProcessView view = subject.supervisor.view(first);
    EXPECT_EQ(view.state, State::starting);
    EXPECT_FALSE(view.pid || view.last_status || view.last_end || view.is_ready);
    EXPECT_EQ(view.starts, 1);
    subject.spawned(first);
    view = subject.supervisor.view(first);
    EXPECT_EQ(view.pid, Pid{100});
    EXPECT_EQ(view.since, subject.now);
    EXPECT_TRUE(view.is_ready);
    subject.after(5s).exited(first, SIGKILL);
    view = subject.supervisor.view(first);
    EXPECT_FALSE(view.pid || view.is_ready);
    EXPECT_EQ(view.last_status, SIGKILL);
    EXPECT_EQ(view.last_end, subject.now);
    EXPECT_EQ(view.starts, 2);
    EXPECT_EQ(view.failures, 1);
    EXPECT_EQ(subject.supervisor.program_count(), 1);
    EXPECT_EQ(subject.supervisor.policy(ProgramId{0}), policy);
    EXPECT_EQ(subject.supervisor.size(ProgramId{3}), 0);
}

TEST(SupervisorView, KnowsWhoWasKilledForMemory) {
    Subject subject = up({service()});
    EXPECT_EQ(subject.on(event::Exited{first, SIGKILL, {}, true}).done(),
              "Spawn 1; ReportExited 1, pid 100, status 9, run 0s, restart in 0s, oom");
}

// Programs that fork.

ProgramPolicy forking() {
    ProgramPolicy policy = service();
    policy.forks = true;
    policy.start_timeout = 90s;
    return policy;
}

Subject& exited_for(Subject& subject, int status, std::optional<Pid> successor = {}) {
    return subject.on(event::Exited{first, status, {}, false, successor});
}

Subject& main_found(Subject& subject, Pid pid) { return subject.on(event::MainFound{first, pid}); }

TEST(SupervisorForks, GoesOnAsTheProcessThatItsFirstOneHasLeft) {
    Subject subject = with({forking()});
    subject.spawned(first);
    EXPECT_EQ(subject.state(), State::activating);
    EXPECT_EQ(subject.supervisor.view(first).pid, Pid{100});
    EXPECT_EQ(exited_for(subject, 0).done(), "") << "not an end";
    EXPECT_EQ(subject.state(), State::activating);
    EXPECT_FALSE(subject.supervisor.view(first).pid) << "nobody is known";
    EXPECT_EQ(subject.deadline(), 90s) << "the start goes on";
    EXPECT_EQ(main_found(subject, Pid{200}).done(), "ReportMain 1, pid 200");
    EXPECT_EQ(subject.state(), State::up);
    EXPECT_EQ(subject.supervisor.view(first).pid, Pid{200});
    EXPECT_EQ(subject.deadline(), std::nullopt);
    EXPECT_EQ(exited_for(subject, exit_code_1).done(),
              "Spawn 1; ReportExited 1, pid 200, status 256, run 0s, restart in 0s");
}

TEST(SupervisorForks, KnowsItWithTheEndOfTheFirst) {
    Subject subject = with({forking()});
    EXPECT_EQ(subject.cloned(first).done(), "");
    EXPECT_EQ(exited_for(subject, 0, Pid{200}).done(), "ReportStarted 1, pid 100; ReportMain 1, pid 200")
        << "an end faster than the news of its execve";
    EXPECT_EQ(subject.state(), State::up);
}

TEST(SupervisorForks, FailsWhenTheFirstDoes) {
    Subject subject = with({forking()});
    subject.spawned(first);
    EXPECT_EQ(exited_for(subject, exit_code_1, Pid{200}).done(),
              "Spawn 1; ReportExited 1, pid 100, status 256, run 0s, restart in 0s");
}

TEST(SupervisorForks, HandsOver) {
    Subject subject = with({forking()});
    subject.spawned(first);
    exited_for(subject, 0, Pid{200});
    EXPECT_EQ(main_found(subject, Pid{201}).done(), "ReportMain 1, pid 201") << "while both live";
    EXPECT_EQ(main_found(subject, Pid{201}).done(), "") << "nothing new";
    EXPECT_EQ(exited_for(subject, SIGKILL, Pid{202}).done(), "ReportMain 1, pid 202") << "however it ended";
    EXPECT_EQ(subject.command(Verb::stop).done(), "Signal 1, pid 202, 15 (stop); Signal 1, pid 202, 18 (forward)");
    EXPECT_EQ(subject.deadline(), 10s);
    EXPECT_EQ(exited_for(subject.after(4s), 0, Pid{203}).done(),
              "ReportMain 1, pid 203; Signal 1, pid 203, 15 (stop); Signal 1, pid 203, 18 (forward)");
    EXPECT_EQ(subject.deadline(), 6s) << "the stop goes on";
    EXPECT_EQ(subject.after(6s).time().done(), "Signal 1, pid 203, 9 (kill) tree");
    EXPECT_EQ(exited_for(subject, SIGKILL, Pid{204}).done(), "ReportExited 1, pid 203, status 9, run 10s, not wanted")
        << "who is killed hands nothing over";
    EXPECT_EQ(subject.state(), State::held);
}

TEST(SupervisorForks, IsKilledAsATreeWhenNobodyIsKnown) {
    Subject subject = with({forking()});
    subject.spawned(first);
    exited_for(subject, 0);
    EXPECT_EQ(subject.after(90s).time().done(), "EndTree 1; ReportTimedOut 1 start");
    EXPECT_EQ(subject.state(), State::killing);
    EXPECT_EQ(main_found(subject, Pid{200}).done(), "") << "too late";
    EXPECT_EQ(exited_for(subject, SIGKILL).done().substr(0, 38), "Spawn 1; ReportExited 1, pid 0, status");
    subject.spawned(first);
    exited_for(subject, 0);
    EXPECT_EQ(subject.command(Verb::stop).done(), "EndTree 1");
    exited_for(subject, SIGKILL);
    EXPECT_EQ(subject.state(), State::held);
    EXPECT_EQ(subject.on(event::SignalReceived{SIGUSR1}).done(), "");
}

TEST(SupervisorForks, IsReadyWhenItIsKnownAndSaysSo) {
    ProgramPolicy policy = forking();
    policy.readiness = Readiness::notified;
    Subject subject = with({policy});
    subject.spawned(first);
    EXPECT_EQ(subject.ready(first).done(), "") << "remembered";
    EXPECT_EQ(exited_for(subject, 0, Pid{200}).done(), "ReportMain 1, pid 200; ReportReady 1, after 0s");
    EXPECT_EQ(subject.state(), State::up);

    policy.readiness = Readiness::probed;
    Subject probed = with({policy});
    EXPECT_EQ(probed.spawned(first).done(), "ReportStarted 1, pid 100") << "nobody to probe yet";
    EXPECT_EQ(exited_for(probed, 0, Pid{200}).done(), "ReportMain 1, pid 200; RunHelper 1 readiness");
    EXPECT_EQ(probed.helper(first, Helper::readiness).done(), "ReportReady 1, after 0s");
}

TEST(SupervisorForks, TakesNobodyElse) {
    Subject subject = up({service()});
    EXPECT_FALSE(subject.supervisor.takes_main(first));
    EXPECT_EQ(main_found(subject, Pid{200}).done(), "");
    EXPECT_EQ(exited_for(subject, 0, Pid{200}).done(),
              "Spawn 1; ReportExited 1, pid 100, status 0, run 0s, restart in 0s");
}

}  // namespace

}  // namespace triton::launcher
