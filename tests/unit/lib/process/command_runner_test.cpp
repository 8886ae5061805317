#include "lib/process/command_runner.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace triton::launcher {

namespace {

using namespace std::chrono_literals;
using How = process::CommandRunner::How;

constexpr int exited(int code) { return code << 8; }

/// One that is killed and not yet reaped does not run.
bool is_running(process::CommandRunner const& runner, process::CommandRunner::Key key) {
    return std::ranges::any_of(runner.running(), [key](process::CommandRunner::Running const& run) {
        return run.key == key && !run.is_answered;
    });
}

class CommandRunnerTest : public testing::Test {
protected:
    void run(process::CommandRunner::Key key, milliseconds timeout, pid_t pid) {
        runner.run(key, timeout, now, [pid]() -> Result<pid_t> { return pid; });
    }

    TimePoint now{1h};
    std::vector<std::string> told;   // "key how code"
    std::vector<std::string> kills;  // "pid signal"
    int kill_result = 0;
    process::CommandRunner runner{
        [this](pid_t pid, int signo) {
            kills.push_back(std::to_string(pid) + " " + std::to_string(signo));
            return kill_result;
        },
        [this](process::CommandRunner::Key key, process::CommandRunner::Outcome const& outcome) {
            static constexpr char const* names[] = {"exited", "signalled", "timed out", "cancelled", "not started"};
            std::string text =
                std::to_string(key) + " " + names[static_cast<int>(outcome.how)] + " " + std::to_string(outcome.code);
            if (!outcome.error.text().empty()) text += " " + outcome.error.text();
            told.push_back(text);
        }};
    using Texts = std::vector<std::string>;
};

TEST_F(CommandRunnerTest, TellsHowACommandEnded) {
    run(1, 1s, 100);
    run(2, 1s, 101);
    run(3, 1s, 102);
    EXPECT_TRUE(is_running(runner, 1));
    for (pid_t const pid : {101, 100, 102})
        runner.before_reaping(pid);
    EXPECT_TRUE(runner.on_exit(101, exited(3)));
    EXPECT_TRUE(runner.on_exit(100, exited(0)));
    EXPECT_TRUE(runner.on_exit(102, SIGSEGV));
    runner.before_reaping(100);  // not ours any more
    EXPECT_EQ(told, (Texts{"2 exited 3", "1 exited 0", "3 signalled 11"}));
    EXPECT_EQ(kills, (Texts{"-101 9", "-100 9", "-102 9"}));  // what they left behind
    EXPECT_FALSE(is_running(runner, 1));
    EXPECT_EQ(runner.next_deadline(), std::nullopt);
}

TEST_F(CommandRunnerTest, KnowsItsOwnOnly) {
    run(1, 1s, 100);
    EXPECT_FALSE(runner.on_exit(99, 0));
    EXPECT_TRUE(runner.on_exit(100, 0));
    EXPECT_FALSE(runner.on_exit(100, 0));
    EXPECT_EQ(told.size(), 1);
}

TEST_F(CommandRunnerTest, KillsWhatTakesTooLong) {
    run(1, 5s, 100);
    run(2, 3s, 101);
    run(3, 0s, 102);  // no limit
    EXPECT_EQ(runner.next_deadline(), now + 3s);
    runner.time_passed(now + 3s - 1ns);
    EXPECT_EQ(told, Texts{});
    runner.time_passed(now + 3s);
    EXPECT_EQ(told, Texts{"2 timed out 0"});
    EXPECT_EQ(kills, Texts{"-101 9"});
    EXPECT_EQ(runner.next_deadline(), now + 5s);
    EXPECT_TRUE(runner.on_exit(101, SIGKILL));  // ours, and answered already
    EXPECT_EQ(told.size(), 1);
    runner.time_passed(now + 1h);
    EXPECT_EQ(told, (Texts{"2 timed out 0", "1 timed out 0"}));
    EXPECT_EQ(runner.next_deadline(), std::nullopt);
    EXPECT_TRUE(is_running(runner, 3));
}

TEST_F(CommandRunnerTest, KillsTheProcessWhereItHasNoGroupYet) {
    run(1, 1s, 100);
    kill_result = -1;
    runner.time_passed(now + 1s);
    EXPECT_EQ(kills, (Texts{"-100 9", "100 9"}));
}

TEST_F(CommandRunnerTest, CancelAnswersAtOnceAndOnce) {
    run(1, 1s, 100);
    runner.cancel(1);
    EXPECT_EQ(told, Texts{"1 cancelled 0"});
    runner.cancel(1);
    runner.cancel(7);
    runner.time_passed(now + 1h);
    EXPECT_TRUE(runner.on_exit(100, exited(0)));
    EXPECT_EQ(told, Texts{"1 cancelled 0"});
    EXPECT_EQ(kills, Texts{"-100 9"});
}

TEST_F(CommandRunnerTest, OneThatHangsInTheKernelIsNotJoinedByAnother) {
    run(1, 1s, 100);
    runner.time_passed(now + 1s);
    run(1, 1s, 101);
    run(2, 1s, 102);
    EXPECT_EQ(told, (Texts{"1 timed out 0", "1 not started 0 the previous one has not ended"}));
    EXPECT_TRUE(runner.on_exit(100, SIGKILL));
    run(1, 1s, 103);
    EXPECT_TRUE(is_running(runner, 1));
}

/// A hook that is owed is run beside one that was killed, but not without end.
TEST_F(CommandRunnerTest, OneThatIsLeftToItsEndKeepsNobodyOut) {
    auto const run_beside = [this](pid_t pid) {
        runner.run(1, 1s, now, [pid]() -> Result<pid_t> { return pid; }, process::CommandRunner::Former::left);
    };
    run_beside(100);
    run_beside(101);
    EXPECT_EQ(told, Texts{"1 not started 0 the previous one has not ended"}) << "it was not killed";
    told.clear();
    runner.cancel(1);
    run_beside(102);
    EXPECT_EQ(told, Texts{"1 cancelled 0"});
    EXPECT_TRUE(is_running(runner, 1));
    EXPECT_TRUE(runner.on_exit(100, SIGKILL));
    EXPECT_TRUE(runner.on_exit(102, exited(3)));
    EXPECT_EQ(told, (Texts{"1 cancelled 0", "1 exited 3"}));
    for (pid_t pid = 200; pid <= 200 + process::CommandRunner::most_left; ++pid) {
        run_beside(pid);
        runner.cancel(1);
    }
    told.clear();
    run_beside(500);
    EXPECT_EQ(told, Texts{"1 not started 0 the previous one has not ended"});
}

TEST_F(CommandRunnerTest, WhatCannotBeStartedIsAnsweredAtOnce) {
    runner.run(1, 1s, now, []() -> Result<pid_t> { return fail(EAGAIN, "clone"); });
    EXPECT_EQ(told, Texts{"1 not started 0 cannot clone: Resource temporarily unavailable"});
    EXPECT_FALSE(is_running(runner, 1));
    EXPECT_EQ(runner.next_deadline(), std::nullopt);
}

TEST_F(CommandRunnerTest, AnAnswerMayRunTheNext) {
    process::CommandRunner* runner_itself = nullptr;
    pid_t last_pid = 100;
    auto const spawn = [&last_pid]() -> Result<pid_t> { return ++last_pid; };
    process::CommandRunner chain{[](pid_t, int) { return 0; },
                                 [&](process::CommandRunner::Key key, process::CommandRunner::Outcome const&) {
                                     if (key < 100) runner_itself->run(key + 100, 5s, now, spawn);
                                 }};
    runner_itself = &chain;
    for (process::CommandRunner::Key const key : {10, 20, 30})
        chain.run(key, 1s, now, spawn);
    chain.time_passed(now + 1s);
    EXPECT_EQ(chain.running().size(), 6);
    for (process::CommandRunner::Key const key : {10, 20, 30}) {
        EXPECT_FALSE(is_running(chain, key));
        EXPECT_TRUE(is_running(chain, key + 100));
    }
    EXPECT_EQ(chain.next_deadline(), now + 5s);
}

TEST_F(CommandRunnerTest, GoesOnAfterAnUpgrade) {
    run(1, 1s, 100);
    run(2, 2s, 101);
    runner.cancel(1);
    std::vector<process::CommandRunner::Running> const state = runner.running();
    told.clear();
    process::CommandRunner other{
        [](pid_t, int) { return 0; },
        [this](process::CommandRunner::Key key, process::CommandRunner::Outcome const& outcome) {
            told.push_back(std::to_string(key) + (outcome.is_ok() ? " ok" : " not ok"));
        }};
    other.import_state(state);
    EXPECT_EQ(other.next_deadline(), now + 2s);
    EXPECT_TRUE(other.on_exit(100, 0));
    EXPECT_TRUE(other.on_exit(101, 0));
    EXPECT_EQ(told, Texts{"2 ok"});
}

}  // namespace

}  // namespace triton::launcher
