// Who has the terminal, below a shell and without one.

#include "launcher/rooms/foreground.h"

#include <cerrno>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcher/children/fake_sys.h"

namespace triton::launcher {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ProcessId first{ProgramId{0}, ProcessNumber{1}};
constexpr ProcessId second{ProgramId{1}, ProcessNumber{1}};

/// We are process 7, which leads its group; the shell above us is 3, and the process is 100.
class ForegroundTest : public testing::Test {
protected:
    /// The process runs, and has the terminal.
    void start() {
        foreground.started(first, 100);
        sys.terminal = 100;
    }

    FakeSys sys;
    ProcessSetup setup;
    Foreground foreground{sys, setup};
};

TEST_F(ForegroundTest, IsTakenFromUsAndFromNoOtherJob) {
    sys.terminal = 7;
    EXPECT_TRUE(foreground.is_free());
    sys.terminal = 3;
    EXPECT_FALSE(foreground.is_free());
    start();
    EXPECT_TRUE(foreground.is_free());  // of the process that is restarted
    sys.terminal = 90;
    sys.signal_errors[-90] = ESRCH;
    EXPECT_TRUE(foreground.is_free());  // of a process that ended before an upgrade
    sys.terminal = -1;
    EXPECT_FALSE(foreground.is_free());
}

TEST_F(ForegroundTest, IsFreeWhereNoShellIsAbove) {
    sys.terminal = 3;
    setup.leads_session = true;
    EXPECT_TRUE(foreground.is_free());
    setup.leads_session = false;
    setup.is_pid_1 = true;
    EXPECT_TRUE(foreground.is_free());
}

TEST_F(ForegroundTest, IsOursAgainWhenTheProcessHasEnded) {
    start();
    foreground.ended(second);
    EXPECT_THAT(sys.calls, IsEmpty());
    foreground.ended(first);
    foreground.ended(first);
    EXPECT_THAT(sys.calls, ElementsAre("foreground 7"));
    start();
    sys.terminal = 3;  // the shell has taken it
    sys.calls.clear();
    foreground.ended(first);
    EXPECT_THAT(sys.calls, IsEmpty());
}

TEST_F(ForegroundTest, SuspendsUsAndResumesBoth) {
    start();
    sys.stops[100] = SIGTSTP;
    foreground.follow_stop();
    EXPECT_THAT(sys.calls, ElementsAre("foreground 7", "kill 7 19", "foreground 100", "kill -100 18"));
    sys.calls.clear();
    foreground.follow_stop();
    EXPECT_THAT(sys.calls, IsEmpty());
}

/// After bg the shell keeps the terminal.
TEST_F(ForegroundTest, GoesOnInTheBackground) {
    start();
    sys.stops[100] = SIGTSTP;
    sys.on_signal = [this](pid_t pid, int signo) {
        if (pid == 7 && signo == SIGSTOP) sys.terminal = 3;
    };
    foreground.follow_stop();
    EXPECT_THAT(sys.calls, ElementsAre("foreground 7", "kill 7 19", "kill -100 18"));
    EXPECT_EQ(sys.terminal, 3);
}

TEST_F(ForegroundTest, OneThatReadsInTheBackgroundWaitsForTheShell) {
    start();
    sys.terminal = 3;
    sys.stops[100] = SIGTTIN;
    sys.on_signal = [this](pid_t pid, int signo) {
        if (pid == 7 && signo == SIGSTOP) sys.terminal = 7;  // fg
    };
    foreground.follow_stop();
    EXPECT_THAT(sys.calls, ElementsAre("kill 7 19", "foreground 100", "kill -100 18"));
    sys.calls.clear();
    sys.terminal = 7;  // fg came before it was stopped
    sys.stops[100] = SIGTTIN;
    foreground.follow_stop();
    EXPECT_THAT(sys.calls, ElementsAre("foreground 100", "kill -100 18"));
}

TEST_F(ForegroundTest, IsHandedOverAtFg) {
    start();
    sys.terminal = 7;
    foreground.continued();
    EXPECT_THAT(sys.calls, ElementsAre("foreground 100"));
}

TEST_F(ForegroundTest, WhoeverElseStopsItDoesNotStopUs) {
    start();
    sys.stops[100] = SIGSTOP;
    foreground.follow_stop();
    setup.leads_session = true;
    sys.stops[100] = SIGTSTP;
    foreground.follow_stop();
    EXPECT_THAT(sys.calls, IsEmpty());
}

}  // namespace

}  // namespace triton::launcher
