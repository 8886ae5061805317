#include "launcher/supervisor/supervisor.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <new>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/launcher/supervisor/supervisor_subject.h"

namespace triton::launcher {

namespace {

using namespace std::chrono_literals;
using State = ProcessState;
using Phase = SupervisorPhase;

template <class T>
std::size_t count(Subject const& subject) {
    return static_cast<std::size_t>(std::ranges::count_if(
        subject.actions, [](Action const& action) { return simulation::as<T>(action) != nullptr; }));
}

TEST(Supervisor, NothingToRunNeedsNothing) {
    Subject subject(plain());
    EXPECT_EQ(subject.deadline(), std::nullopt);
    EXPECT_EQ(subject.configuration(0).done(), "");
    EXPECT_EQ(subject.supervisor.size(ProgramId{}), 0);
    EXPECT_EQ(subject.stop().done(), "Finish 0");
}

TEST(Supervisor, StartsAllAtOnceInOrder) {
    Subject subject(plain());
    EXPECT_EQ(subject.configuration(3).done(), "Spawn 1; Spawn 2; Spawn 3");
    EXPECT_EQ(subject.supervisor.running_count(), 0);
    subject.spawned(process(2));
    EXPECT_EQ(subject.supervisor.running_count(), 1);
    EXPECT_EQ(subject.deadline(), std::nullopt);
}

TEST(Supervisor, ChangedCountTakesEffectAtOnce) {
    Subject subject = all_up(2);
    EXPECT_EQ(subject.configuration(4).done(), "Spawn 3; Spawn 4");
    subject.spawned(process(3)).spawned(process(4));
    EXPECT_EQ(subject.configuration(3).done(), "Signal 4, pid 103, 15 (stop); Signal 4, pid 103, 18 (forward)");
    EXPECT_EQ(subject.configuration(3).done(), "");
    EXPECT_EQ(subject.exited(process(4), 0).done(), "ReportExited 4, pid 103, status 0, run 0s, not wanted");
    EXPECT_EQ(subject.supervisor.running_count(), 3);
}

/// Only so much more memory than there is now, while it lives.
class ScarceMemory {
public:
    explicit ScarceMemory(rlim_t more) {
        rlim_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        EXPECT_EQ(::getrlimit(RLIMIT_AS, &before_), 0);
        rlimit const now{pages * static_cast<rlim_t>(::getpagesize()) + more, before_.rlim_max};
        EXPECT_EQ(::setrlimit(RLIMIT_AS, &now), 0);
    }
    ScarceMemory(ScarceMemory const&) = delete;
    ScarceMemory& operator=(ScarceMemory const&) = delete;
    ~ScarceMemory() { EXPECT_EQ(::setrlimit(RLIMIT_AS, &before_), 0); }

private:
    rlimit before_{};
};

TEST(Supervisor, WhatItHasNoMemoryForHasNotBeen) {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "AddressSanitizer ends the program instead of throwing bad_alloc";
#else
    // The count was taken over before there was room for it, and then nobody had the processes that it spoke of.
    Subject subject = all_up(2);
    {
        ScarceMemory const scarce{std::size_t{64} << 20};
        EXPECT_THROW(subject.configuration(20'000'000), std::bad_alloc);
    }
    EXPECT_EQ(subject.supervisor.policy(ProgramId{}).count, 2);
    EXPECT_EQ(subject.supervisor.size(ProgramId{}), 2);
    EXPECT_EQ(subject.exited(first, 0).done(), "Spawn 1; ReportExited 1, pid 100, status 0, run 0s, restart in 0s");
    EXPECT_EQ(subject.configuration(3).done(), "Spawn 3");
#endif
}

TEST(Supervisor, RaisedWhileStoppingStartsWhenTheOldOneIsGone) {
    Subject subject = all_up(1);
    subject.configuration(0);
    EXPECT_EQ(subject.configuration(1).done(), "");
    EXPECT_EQ(subject.after(3s).exited(first, SIGTERM).done(),
              "Spawn 1; ReportExited 1, pid 100, status 15, run 3s, restart in 0s");
    // that end was our doing: the first failure of its own is still the first
    subject.spawned(first);
    EXPECT_EQ(subject.exited(first, SIGSEGV).done(),
              "Spawn 1; ReportExited 1, pid 100, status 11, run 0s, restart in 0s");
}

TEST(Supervisor, BacksOffFurtherWithEachFailure) {
    Subject subject(plain());
    subject.configuration(1);
    for (Duration const delay : {0s, 1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
        subject.spawned(first).exited(first, 1 << 8);
        if (delay > 0s) {
            EXPECT_EQ(subject.deadline(), delay);
            EXPECT_EQ(subject.after(delay - 1ns).time().done(), "");
            subject.after(1ns).time();
        }
        EXPECT_EQ(subject.supervisor.state(first), State::starting);
    }
}

/// The answer comes at once, so that trying again at once would leave no time for anything else.
TEST(Supervisor, FailedCloneIsNeverTriedAgainAtOnce) {
    Policies policies = plain();
    policies.program.backoff.delay = 0s;
    Subject subject(policies);
    subject.configuration(1);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(subject.on(event::SpawnFailed{first, {process::SpawnStage::clone, EAGAIN}}).done(),
                  "ReportStartFailed 1, stage 0 errno 11, restart in 0.001s");
        EXPECT_EQ(subject.deadline(), 1ms);
        EXPECT_EQ(subject.after(1ms).time().done(), "Spawn 1");
    }
}

TEST(Supervisor, AcceptedConfigurationEndsABackoff) {
    Subject subject(plain());
    subject.configuration(1).spawned(first).exited(first, 1).spawned(first).exited(first, 1);
    ASSERT_EQ(subject.supervisor.state(first), State::backoff);
    EXPECT_EQ(subject.configuration(1).done(), "Spawn 1");
    // and forgets the failures that the old one has caused
    EXPECT_EQ(subject.spawned(first).exited(first, 1).done(),
              "Spawn 1; ReportExited 1, pid 100, status 1, run 0s, restart in 0s");
    EXPECT_EQ(subject.deadline(), std::nullopt);
}

TEST(Supervisor, ProcessesBackOffEachOnItsOwn) {
    Subject subject = all_up(2);
    ProcessId const second = process(2);
    subject.exited(first, 1).spawned(first).exited(first, 1);
    subject.after(500ms).exited(second, 1).spawned(second).exited(second, 1);
    EXPECT_EQ(subject.deadline(), 500ms);
    EXPECT_EQ(subject.after(500ms).time().done(), "Spawn 1");
    EXPECT_EQ(subject.deadline(), 500ms);
    EXPECT_EQ(subject.after(1h).time().done(), "Spawn 2");
    EXPECT_EQ(subject.deadline(), std::nullopt);
}

TEST(Supervisor, KilledTogetherComeBackWithoutWaitingForEachOther) {
    Subject subject = all_up(3);
    subject.after(1min);
    for (std::uint32_t number : {3U, 1U, 2U}) {
        subject.exited(process(number), SIGKILL);
        EXPECT_EQ(subject.actions.front(), Action{action::Spawn{process(number)}});
    }
}

TEST(Supervisor, SignalsAreForwardedToWhatLives) {
    Subject subject = all_up(3);
    subject.exited(process(2), 0);
    EXPECT_EQ(subject.on(event::SignalReceived{SIGHUP}).done(),
              "Signal 1, pid 100, 1 (forward); Signal 3, pid 102, 1 (forward)");
}

TEST(Supervisor, StopGivesEachItsTimeAndThenKills) {
    Subject subject = all_up(2);
    subject.stop();
    EXPECT_EQ(subject.deadline(), 10s);
    subject.exited(process(2), 0);
    EXPECT_EQ(subject.after(10s).time().done(), "Signal 1, pid 100, 9 (kill) tree");
    EXPECT_EQ(subject.exited(first, SIGKILL).done(),
              "ReportExited 1, pid 100, status 9, run 10s, not wanted; Finish 0");
    EXPECT_EQ(subject.deadline(), std::nullopt);
}

TEST(Supervisor, StopLimitShortensTheTimeOfEach) {
    Policies policies = plain();
    policies.program.stop_timeout = 1h;
    Subject subject = all_up(1, policies);
    subject.stop();
    EXPECT_EQ(subject.deadline(), 24s);  // of 30: the rest is for dying
    EXPECT_EQ(subject.after(24s).time().done(), "Signal 1, pid 100, 9 (kill) tree");
    EXPECT_EQ(subject.deadline(), 6s);
    EXPECT_EQ(subject.after(6s).time().done(), "ReportLeft 1, pid 100; Finish 1");
}

TEST(Supervisor, StopLimitShortensAnEarlierStopToo) {
    Policies policies = plain();
    policies.program.stop_timeout = 1h;
    Subject subject = all_up(1, policies);
    subject.configuration(0).after(1s).stop();
    EXPECT_EQ(subject.deadline(), 24s);
    EXPECT_EQ(subject.after(24s).time().done(), "Signal 1, pid 100, 9 (kill) tree");
}

TEST(Supervisor, StopThatIsNoticedTooLateStillKills) {
    Subject subject = all_up(2);
    subject.stop().exited(process(2), 0);
    EXPECT_EQ(subject.after(1h).time().done(), "Signal 1, pid 100, 9 (kill) tree; ReportLeft 1, pid 100; Finish 1");
}

TEST(Supervisor, SecondStopKillsAtOnce) {
    Subject subject(plain());
    subject.configuration(2).spawned(first).stop();
    EXPECT_EQ(subject.stop().done(), "Signal 1, pid 100, 9 (kill) tree");
    EXPECT_EQ(subject.stop().done(), "");
    // what was being started when it came is not an exception
    EXPECT_EQ(subject.spawned(process(2)).done(), "Signal 2, pid 101, 9 (kill) tree; ReportStarted 2, pid 101");
}

TEST(Supervisor, NothingStartsInAStop) {
    Subject subject(plain());
    subject.configuration(2).spawned(first).stop();
    EXPECT_EQ(subject.configuration(5).done(), "");
    EXPECT_EQ(subject.supervisor.size(ProgramId{}), 2);
    EXPECT_EQ(subject.exited(first, 1).done(), "ReportExited 1, pid 100, status 1, run 0s, not wanted");
    EXPECT_EQ(subject.on(event::SpawnFailed{process(2), {process::SpawnStage::clone, EAGAIN}}).done(),
              "ReportStartFailed 2, stage 0 errno 11, not wanted; Finish 0");
}

TEST(Supervisor, Pid1SweepsWhatRemains) {
    Subject subject = all_up(1, pid_1());
    subject.stop().after(1s).exited(first, 0);
    EXPECT_EQ(subject.actions.back(), Action{action::Sweep{SIGTERM}});
    EXPECT_EQ(subject.deadline(), 10s);
    EXPECT_EQ(subject.after(10s).time().done(), "Sweep 9");
    EXPECT_EQ(subject.deadline(), 19s);
    EXPECT_EQ(subject.on(event::NoChildLeft{}).done(), "Finish 0");
}

TEST(Supervisor, Pid1DoesNotWaitForOrphansForever) {
    Subject subject = all_up(1, pid_1());
    subject.stop().exited(first, 0).after(10s).time();
    EXPECT_EQ(subject.after(20s).time().done(), "Finish 1");
}

TEST(Supervisor, SecondStopSweepsByKill) {
    Subject subject = all_up(1, pid_1());
    subject.stop().exited(first, 0);
    EXPECT_EQ(subject.stop().done(), "Sweep 9");
    Subject early = all_up(1, pid_1());
    early.stop().stop().exited(first, SIGKILL);
    EXPECT_EQ(early.actions.back(), Action{action::Sweep{SIGKILL}});
}

TEST(Supervisor, NoChildLeftMeansNothingBeforeTheSweep) {
    Subject subject(pid_1());
    EXPECT_EQ(subject.on(event::NoChildLeft{}).done(), "");
    subject.configuration(1).stop();
    EXPECT_EQ(subject.on(event::NoChildLeft{}).done(), "");
    EXPECT_EQ(subject.supervisor.phase(), Phase::stopping);
}

TEST(Supervisor, JitterComesFromTheSeed) {
    auto const delay = [](std::uint64_t seed) {
        Policies policies;
        policies.whole.seed = seed;
        Subject subject(policies);
        subject.configuration(1).spawned(first).exited(first, 1).spawned(first).exited(first, 1);
        return *subject.deadline();
    };
    EXPECT_EQ(delay(1), delay(1));
    EXPECT_NE(delay(1), delay(2));
}

TEST(Supervisor, CarriesTheLargestNumberOfProcesses) {
    Subject subject = all_up(65535);
    EXPECT_EQ(subject.supervisor.running_count(), 65535);
    EXPECT_EQ(count<action::Signal>(subject.stop()), 2 * 65535);
    EXPECT_EQ(count<action::Signal>(subject.after(10s).time()), 65535);
}

}  // namespace

}  // namespace triton::launcher
