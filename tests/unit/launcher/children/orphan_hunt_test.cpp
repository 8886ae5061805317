#include "launcher/children/orphan_hunt.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/launcher/children/fake_sys.h"

namespace triton::launcher {

namespace {

using Calls = std::vector<std::string>;
constexpr std::uint64_t mark = process::highest_mark - 7'000'000;
constexpr ProcessId owner{ProgramId{3}, ProcessNumber{2}};

class OrphanHuntTest : public testing::Test {
protected:
    /// More rounds than it takes.
    void run_dry() {
        EventLoop::Timer stop(*loop, [this] { loop->stop(); });
        for (int rounds = 0; rounds < 20; ++rounds) {
            stop.arm(std::chrono::steady_clock::now());
            ASSERT_TRUE(loop->run());
        }
    }
    /// Returns whether it was called, at the latest after some seconds.
    bool until_called(std::string const& call) {
        EventLoop::Timer stop(*loop, [this] { loop->stop(); });
        auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (std::ranges::find(sys.calls, call) == sys.calls.end() && std::chrono::steady_clock::now() < end) {
            stop.arm(std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
            if (!loop->run()) return false;
        }
        return std::ranges::find(sys.calls, call) != sys.calls.end();
    }
    Calls kills() {
        Calls found;
        for (std::string const& call : sys.calls)
            if (call.starts_with("kill")) found.push_back(call);
        sys.calls.clear();
        return found;
    }

    std::unique_ptr<EventLoop> loop = EventLoop::create().value();
    FakeSys sys;
    OrphanHunt hunt{sys, *loop};
};

TEST_F(OrphanHuntTest, KillsThoseWithTheMarkAndNobodyElse) {
    sys.marks = {{10, mark}, {11, mark}, {12, mark + 1}, {13, 0}};
    sys.dead = {{10, 0}};  // whose mark it is
    hunt.end_mark(mark, owner);
    EXPECT_EQ(kills(), Calls{"kill 11 9"});
}

/// Its user may do so with either limit, and has changed nothing: the other one tells.
TEST_F(OrphanHuntTest, OneOfTheTwoLimitsIsEnough) {
    sys.marks = {{10, mark - 1000}, {11, mark}, {12, 0}};
    sys.rising_marks = {{10, mark}, {11, 0}, {12, 0}};
    hunt.end_mark(mark, owner);
    EXPECT_EQ(kills(), (Calls{"kill 10 9", "kill 11 9"}));
}

TEST_F(OrphanHuntTest, GoesOnUntilNobodyIsFound) {
    sys.marks = {{11, mark}};
    hunt.end_mark(mark, owner);
    EXPECT_EQ(kills(), Calls{"kill 11 9"});
    EXPECT_TRUE(hunt.is_hunting(owner));
    sys.marks = {};
    hunt.orphan_reaped();
    run_dry();
    EXPECT_FALSE(hunt.is_hunting(owner));
    sys.marks = {{30, mark}};  // it was over: nobody hunts it
    hunt.orphan_reaped();
    run_dry();
    EXPECT_EQ(kills(), Calls{});
}

/// Those that come up when others have been killed may have made more: nothing is killed before all are stopped.
TEST_F(OrphanHuntTest, StopsAllBeforeItKillsWhatKeepsForking) {
    sys.marks = {{11, mark}};
    hunt.end_mark(mark, owner);
    EXPECT_EQ(kills(), Calls{"kill 11 9"});
    sys.marks = {{20, mark}, {21, mark}, {22, mark + 1}};
    sys.deeper = {21, 22};
    sys.on_signal = [&](pid_t pid, int signo) {
        if (pid == 21 && signo == SIGSTOP) sys.marks[23] = mark;  // it was just being made
    };
    hunt.begin_round();
    hunt.orphan_reaped();
    for (char const* const kill : {"kill 20 9", "kill 21 9", "kill 23 9"})
        EXPECT_TRUE(until_called(kill)) << kill;
    Calls const all = kills();
    auto const first_kill = std::ranges::find_if(all, [](std::string const& call) { return call.ends_with(" 9"); });
    for (char const* const stop : {"kill 20 19", "kill 21 19", "kill 23 19"})
        EXPECT_LT(std::ranges::find(all, stop), first_kill) << stop;
    EXPECT_EQ(std::ranges::find(all, "kill 22 9"), all.end()) << "it carries another mark";
}

/// What makes new ones for ever, although it is stopped, has its end all the same.
TEST_F(OrphanHuntTest, ThePassesThatStopAreBounded) {
    sys.marks = {{11, mark}};
    hunt.end_mark(mark, owner);
    sys.marks = {{20, mark}};
    pid_t next = 21;
    sys.on_signal = [&](pid_t pid, int signo) {
        if (signo == SIGSTOP && pid + 1 == next) sys.marks[next++] = mark;  // the youngest forks before it stops
    };
    hunt.orphan_reaped();
    EXPECT_TRUE(until_called("kill 20 9"));
}

TEST_F(OrphanHuntTest, WhatDoesNotDieIsLeftAlone) {
    sys.marks = {{11, mark}};
    sys.deeper = {12};
    hunt.end_mark(mark, owner);
    TimePoint const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    hunt.orphan_reaped();
    EventLoop::Timer stop(*loop, [this] { loop->stop(); });
    while (std::chrono::steady_clock::now() < end) {
        stop.arm(std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
        ASSERT_TRUE(loop->run());
    }
    EXPECT_LT(std::ranges::count(sys.calls, "list all"), 40);
    EXPECT_TRUE(hunt.is_hunting(owner));
}

TEST_F(OrphanHuntTest, WithoutAMarkNothingIsDone) {
    sys.marks = {{11, mark}};
    hunt.end_mark(0, owner);
    hunt.orphan_reaped();
    run_dry();
    EXPECT_EQ(sys.calls, Calls{});
}

TEST_F(OrphanHuntTest, DoesBoundedWorkInARound) {
    for (pid_t pid = 10; pid < 1000; ++pid)
        sys.marks[pid] = mark;
    hunt.end_mark(mark, owner);
    EXPECT_EQ(kills().size(), OrphanHunt::most_per_round);
    hunt.end_mark(mark + 1, owner);  // in the same round nobody looks again
    EXPECT_EQ(kills().size(), 0U);
    run_dry();
    EXPECT_EQ(kills().size(), 990U);
}

TEST_F(OrphanHuntTest, WaitsAMomentAtTheEnd) {
    sys.marks = {{11, mark}};
    hunt.end_mark(mark, owner);
    int moments = 0;
    sys.on_moment = [&] {
        sys.marks = ++moments == 1 ? std::map<pid_t, std::uint64_t>{{20, mark}} : std::map<pid_t, std::uint64_t>{};
    };
    hunt.finish();
    EXPECT_EQ(moments, 2);
    sys.on_moment = [&] { ++moments; };
    sys.marks = {{30, mark}};  // it is stuck
    hunt.end_mark(mark, owner);
    moments = 0;
    hunt.finish();
    EXPECT_EQ(moments, 100);
}

TEST_F(OrphanHuntTest, MarksFall) {
    std::uint64_t before = hunt.next_mark();
    for (int i = 0; i < 1000; ++i) {
        std::uint64_t const next = hunt.next_mark();
        ASSERT_LT(next, before);
        ASSERT_GE(next, process::lowest_mark);
        before = next;
    }
}

TEST_F(OrphanHuntTest, MarksFallFromOneLauncherToTheNext) {
    std::uint64_t const before = hunt.next_mark();
    OrphanHunt after_upgrade(sys, *loop);
    EXPECT_LT(after_upgrade.next_mark(), before);
}

constexpr std::uint64_t none = ~std::uint64_t{0};

/// An earlier start's mark is higher. Neither it nor its half can be taken by lowering limits.
TEST(MarkLimits, TheOneFallsAndTheOtherRises) {
    for (std::uint64_t const ours : {none, process::lowest_mark + 12345, std::uint64_t{1} << 61}) {
        process::MarkLimits const limits(ours);
        EXPECT_LT(limits.locks_of(mark), limits.locks_of(mark - 1)) << ours;
        EXPECT_LE(limits.locks_of(mark - 1), ours);
        EXPECT_EQ(limits.mark_of_locks(limits.locks_of(mark)), mark);
        EXPECT_EQ(limits.mark_of_locks(limits.locks_of(mark) - 1), mark + 1);
        EXPECT_EQ(limits.mark_of_locks(0), 0U);
        EXPECT_EQ(limits.mark_of_locks(ours), 0U);
    }
    process::MarkLimits const outer(none);
    process::MarkLimits const nested(outer.locks_of(mark));
    EXPECT_LT(nested.locks_of(mark - 1'000'000), outer.locks_of(mark)) << "which it may not raise";
    EXPECT_EQ(outer.mark_of_locks(nested.locks_of(mark - 1)), 0U);
    process::MarkLimits const too_deep(1000);
    EXPECT_EQ(too_deep.locks_of(mark), 0U);
    EXPECT_EQ(too_deep.mark_of_locks(1000), 0U);
}

/// What the kernel says of real children: also of one that has ended, and of what it has left behind.
TEST(RealSys, FindsTheMarksOfChildren) {
    rlimit now{};
    ASSERT_EQ(::getrlimit(RLIMIT_RTTIME, &now), 0);
    if (now.rlim_max != RLIM_INFINITY) GTEST_SKIP() << "time of real-time processes is limited here";
    RealSys sys({}, 0);
    std::uint64_t const locks = process::MarkLimits::of_this_process().locks_of(mark);
    pid_t const child = ::fork();
    if (child == 0) {
        rlimit const limit{mark, mark};
        rlimit const other{0, locks};  // the soft one is everybody's
        ::_exit(::setrlimit(RLIMIT_RTTIME, &limit) == 0 && ::setrlimit(RLIMIT_LOCKS, &other) == 0 ? 0 : 1);
    }
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    EXPECT_TRUE(sys.marks_of(child).are(mark));
    EXPECT_TRUE(sys.marks_of(child).is_rising_set);
    EXPECT_EQ(sys.marks_of(::getpid()).falling, 0U);
    EXPECT_FALSE(sys.marks_of(::getpid()).is_rising_set);
    std::vector<pid_t> children;
    sys.list_children(children);
    EXPECT_EQ(children, std::vector<pid_t>{child});
    std::vector<pid_t> all;
    sys.list_processes(all);
    EXPECT_NE(std::ranges::find(all, ::getpid()), all.end());
    std::uint64_t const marks[] = {mark};
    EXPECT_EQ(sys.signal_marked(child, marks, SIGKILL), false) << "it has ended";
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_EQ(sys.marks_of(child).falling, 0U);
}

TEST(RealSys, SignalsThoseThatHaveTheMark) {
    rlimit now{};
    ASSERT_EQ(::getrlimit(RLIMIT_RTTIME, &now), 0);
    if (now.rlim_max != RLIM_INFINITY) GTEST_SKIP() << "time of real-time processes is limited here";
    RealSys sys({}, 0);
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    pid_t const child = ::fork();
    if (child == 0) {
        rlimit const limit{mark, mark};
        if (::setrlimit(RLIMIT_RTTIME, &limit) != 0) ::_exit(1);
        (void)!::write(ends[1], "x", 1);
        for (;;)
            ::pause();
    }
    char byte = 0;
    ASSERT_EQ(::read(ends[0], &byte, 1), 1);
    std::uint64_t const others[] = {mark - 1, mark + 1};
    EXPECT_EQ(sys.signal_marked(child, others, SIGKILL), false);
    EXPECT_EQ(sys.user_of(child), ::geteuid());
    std::uint64_t const marks[] = {mark - 1, mark};
    EXPECT_EQ(sys.signal_marked(child, marks, SIGTERM), true);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WTERMSIG(status), SIGTERM);
    (void)::close(ends[0]);
    (void)::close(ends[1]);
}

TEST(RealSys, OrphansComeToASubreaper) {
    pid_t const child = ::fork();  // which is none, whatever we are
    if (child == 0) {
        RealSys sys({}, 0);
        bool const before = sys.adopts_orphans();
        bool const is_made = ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
        ::_exit(!before && is_made && sys.adopts_orphans() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

}  // namespace

}  // namespace triton::launcher
