#include "launcher/children/orphan_hunt.h"

#include <csignal>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/launcher/children/fake_sys.h"

namespace triton::launcher {

namespace {

using Calls = std::vector<std::string>;
constexpr std::uint64_t mark = process::lowest_mark + 7;

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
    hunt.end(10);
    EXPECT_EQ(kills(), (Calls{"kill 10 9", "kill 11 9"}));  // 10 has ended, and a signal does it no harm
}

TEST_F(OrphanHuntTest, GoesOnUntilNobodyIsFound) {
    sys.marks = {{10, mark}, {11, mark}};
    hunt.end(10);
    EXPECT_EQ(kills().size(), 2U);
    sys.marks = {{20, mark}};  // what 11 had started
    hunt.begin_round();
    hunt.orphan_reaped();
    run_dry();
    EXPECT_EQ(kills(), Calls{"kill 20 9"});
    sys.marks = {};
    hunt.orphan_reaped();
    run_dry();
    sys.marks = {{30, mark}};  // it was over: nobody hunts it
    hunt.orphan_reaped();
    run_dry();
    EXPECT_EQ(kills(), Calls{});
}

TEST_F(OrphanHuntTest, WithoutAMarkNothingIsDone) {
    sys.marks = {{11, mark}};
    hunt.end(10);
    hunt.orphan_reaped();
    run_dry();
    EXPECT_EQ(sys.calls, Calls{});
}

TEST_F(OrphanHuntTest, DoesBoundedWorkInARound) {
    for (pid_t pid = 10; pid < 1000; ++pid)
        sys.marks[pid] = mark;
    hunt.end(10);
    EXPECT_EQ(kills().size(), OrphanHunt::most_per_round);
    hunt.end(11);  // in the same round nobody looks again
    EXPECT_EQ(kills().size(), 0U);
    run_dry();
    EXPECT_EQ(kills().size(), 990U);
}

TEST_F(OrphanHuntTest, WaitsAMomentAtTheEnd) {
    sys.marks = {{10, mark}, {11, mark}};
    hunt.end(10);
    int moments = 0;
    sys.on_moment = [&] {
        sys.marks = ++moments == 1 ? std::map<pid_t, std::uint64_t>{{20, mark}} : std::map<pid_t, std::uint64_t>{};
    };
    hunt.finish();
    EXPECT_EQ(moments, 2);
    sys.on_moment = [&] { ++moments; };
    sys.marks = {{30, mark}};  // it is stuck
    hunt.end(30);
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

/// What the kernel says of real children: also of one that has ended, and of what it has left behind.
TEST(RealSys, FindsTheMarksOfChildren) {
    rlimit now{};
    ASSERT_EQ(::getrlimit(RLIMIT_RTTIME, &now), 0);
    if (now.rlim_max != RLIM_INFINITY) GTEST_SKIP() << "time of real-time processes is limited here";
    RealSys sys({}, 0);
    pid_t const child = ::fork();
    if (child == 0) {
        rlimit const limit{mark, mark};
        ::_exit(::setrlimit(RLIMIT_RTTIME, &limit) == 0 ? 0 : 1);
    }
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(sys.mark_of(child), mark);
    EXPECT_EQ(sys.mark_of(::getpid()), 0U);
    std::vector<pid_t> children;
    sys.list_children(children);
    EXPECT_EQ(children, std::vector<pid_t>{child});
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_EQ(sys.mark_of(child), 0U);
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
