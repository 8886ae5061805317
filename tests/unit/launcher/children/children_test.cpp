// The room of the children against a kernel that does what the test says.

#include "launcher/children/children.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/process/spawn_stage.h"
#include "tests/unit/launcher/children/fake_sys.h"

namespace triton::launcher {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;

constexpr int exited(int code) { return code << 8; }

log::Log::Settings silent() {
    log::Log::Settings settings;
    settings.level = log::LogLevel::off;
    return settings;
}

class ChildrenTest : public testing::Test, public Children::Listener {
protected:
    ChildrenTest() { children.make_room(8); }

    void make_room_for_an_end() override {
        if (has_no_memory) throw std::bad_alloc();
    }
    void before_reaping(ProcessId, pid_t pid) override { sys.calls.push_back("before " + std::to_string(pid)); }
    void process_executed(ProcessId id) override { executed.push_back(static_cast<std::uint32_t>(id.number)); }
    void process_ended(ProcessId id, int status, std::optional<process::SpawnError> error) override {
        std::string text = std::to_string(static_cast<std::uint32_t>(id.number)) + " ended " + std::to_string(status);
        if (error) text += ": " + process::stage_text(error->stage) + " " + std::to_string(error->code);
        told.push_back(text);
    }
    void command_ended(Children::Key key, Children::Outcome const& outcome) override {
        std::string text = "command " + std::to_string(key) + " " + std::to_string(outcome.code);
        if (outcome.not_executed) text += " not executed: " + std::to_string(outcome.not_executed->code);
        if (outcome.how == process::CommandRunner::How::not_started) text += " " + outcome.error.text();
        told.push_back(text);
    }
    void no_child_left() override { told.emplace_back("no child left"); }
    void orphan_reaped() override { ++orphans; }

    pid_t start(std::uint32_t number) {
        children.make_room_for_a_start();
        auto const pid = children.start({ProgramId{0}, ProcessNumber{number}}, plan, {});
        EXPECT_TRUE(pid);
        return pid ? static_cast<pid_t>(*pid) : -1;
    }
    void run_command(Children::Key key) {
        children.run_command(key, 10s, [&] { return children.spawn_command(plan, ProcessNumber{1}, {}); });
    }

    int orphans = 0;
    std::unique_ptr<EventLoop> loop = *EventLoop::create();
    log::Log log{silent()};
    FakeSys sys;
    std::vector<std::string> told;
    std::vector<std::uint32_t> executed;
    bool has_no_memory = false;
    std::shared_ptr<process::StartPlan const> plan = std::make_shared<process::StartPlan const>(
        "/bin/web", std::vector<std::string>{}, process::CommandTemplate::Builder(1).take());
    Children children{sys, *loop, log, *this};
};

TEST_F(ChildrenTest, WhatACommandHasLeftBehindEndsWithIt) {
    constexpr std::uint64_t mark = process::highest_mark - 5;
    ProcessId const owner{ProgramId{2}, ProcessNumber{1}};
    auto const spawn = [&] { return children.spawn_command(plan, ProcessNumber{1}, {.mark = mark}, owner); };
    children.run_command(7, 10s, spawn);
    sys.marks = {{500, mark}, {501, mark - 1}};
    EXPECT_FALSE(children.is_ending_orphans_of(owner));
    sys.end(FakeSys::first_pid, exited(0));
    children.reap();
    EXPECT_TRUE(children.is_ending_orphans_of(owner));
    EXPECT_THAT(sys.calls, testing::Contains("kill 500 9"));
    EXPECT_THAT(sys.calls, testing::Not(testing::Contains("kill 501 9")));
}

TEST_F(ChildrenTest, TellsWhoHasEndedAndHow) {
    pid_t const first = start(1);
    pid_t const second = start(2);
    sys.end(second, exited(3));
    sys.end(first, SIGKILL);
    children.reap();
    EXPECT_THAT(told, ElementsAre("2 ended 768", "1 ended 9", "no child left"));
}

TEST_F(ChildrenTest, TriesAnInterruptedWaitAgain) {
    pid_t const pid = start(1);
    (void)start(2);
    sys.end(pid, exited(0));
    sys.wait_errors = {EINTR, EINTR};
    children.reap();
    EXPECT_THAT(told, ElementsAre("1 ended 0"));
    children.look_before_reaping();
    sys.end(pid + 1, exited(0));
    sys.wait_errors = {EINTR, 0, EINTR};
    children.reap();
    EXPECT_THAT(told, ElementsAre("1 ended 0", "2 ended 0", "no child left"));
}

TEST_F(ChildrenTest, KnowsNobodyWithoutChildren) {
    children.reap();
    EXPECT_THAT(told, ElementsAre("no child left"));
    EXPECT_TRUE(children.check());
}

TEST_F(ChildrenTest, SeesLeftoversWhileThePidIsStillTheirLeaders) {
    children.look_before_reaping();
    pid_t const pid = start(1);
    run_command(5);
    sys.end(pid, exited(0));
    sys.end(pid + 1, exited(0));
    sys.calls.clear();
    children.reap();
    EXPECT_THAT(sys.calls, ElementsAre("look", "before 100", "reap 100", "look", "kill -101 9", "reap 101", "look"));
    EXPECT_THAT(told, ElementsAre("1 ended 0", "command 5 0", "no child left"));
}

TEST_F(ChildrenTest, SaysWhyAChildNeverBecameItsProgram) {
    pid_t const pid = start(1);
    run_command(5);
    sys.errors_of_children = {{pid, {process::SpawnStage::execute, ENOENT}},
                              {pid + 1, {process::SpawnStage::execute, EACCES}}};
    sys.end(pid, exited(127));
    sys.end(pid + 1, exited(127));
    children.reap();
    EXPECT_THAT(told, ElementsAre("1 ended 32512: " + process::stage_text(process::SpawnStage::execute) + " 2",
                                  "command 5 127 not executed: 13", "no child left"));
}

TEST_F(ChildrenTest, ACloneThatFailsLeavesNothingBehind) {
    sys.spawn_errors = {EAGAIN, EAGAIN};
    children.make_room_for_a_start();
    auto const pid = children.start({ProgramId{0}, ProcessNumber{1}}, plan, {});
    ASSERT_FALSE(pid);
    EXPECT_EQ(pid.error(), (process::SpawnError{process::SpawnStage::clone, EAGAIN}));
    run_command(5);
    children.reap();
    EXPECT_THAT(told, ElementsAre("command 5 0 cannot " + process::stage_text(process::SpawnStage::clone, plan.get()) +
                                      ": Resource temporarily unavailable",
                                  "no child left"));
}

/// The kernel forgets a process that is reaped: what cannot be told stays a child.
TEST_F(ChildrenTest, ReapsNothingThatItCouldNotTell) {
    sys.end(start(1), exited(0));
    has_no_memory = true;
    EXPECT_THROW(children.reap(), std::bad_alloc);
    EXPECT_EQ(sys.dead.size(), 1);
    has_no_memory = false;
    children.reap();
    EXPECT_THAT(told, ElementsAre("1 ended 0", "no child left"));
}

/// Orphans are as many as whoever runs in the container likes.
TEST_F(ChildrenTest, ReapsSoManyInARoundAndTheOthersInTheNext) {
    for (pid_t pid = 10'000; pid < 13'000; ++pid)
        sys.dead.push_back({pid, 0});
    children.reap();
    EXPECT_EQ(sys.dead.size(), 3000 - 1024);
    int rounds = 0;
    loop->set_round_end([&] {
        ++rounds;
        if (sys.dead.empty()) loop->stop();
    });
    ASSERT_TRUE(loop->run());
    EXPECT_EQ(rounds, 2);
    EXPECT_THAT(told, ElementsAre("no child left"));
}

/// While many end at once each wait is dear, for us and for those that die.
class ChildrenInAStormTest : public ChildrenTest {
protected:
    ChildrenInAStormTest() {
        for (; orphan < 10'016; ++orphan)
            sys.dead.push_back({orphan, 0});
        children.note_end(orphan - 1);
    }

    pid_t orphan = 10'000;
    pid_t const own = start(1);
    pid_t const other = start(2);
};

TEST_F(ChildrenInAStormTest, ReapsOrphansInBatches) {
    EXPECT_THAT(sys.dead, IsEmpty());
    auto const begin = std::chrono::steady_clock::now();
    sys.dead.push_back({++orphan, 0});
    children.note_end(orphan);
    EXPECT_EQ(sys.dead.size(), 1);
    loop->set_round_end([&] {
        if (sys.dead.empty()) loop->stop();
    });
    ASSERT_TRUE(loop->run());
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 900us);
}

TEST_F(ChildrenInAStormTest, ReapsOursAtOnce) {
    sys.dead.push_back({++orphan, 0});
    children.note_end(orphan);
    EXPECT_THAT(told, IsEmpty());
    sys.end(own, exited(3));
    children.note_end(own);
    EXPECT_THAT(told, ElementsAre("1 ended 768"));
}

TEST_F(ChildrenInAStormTest, WhoAsksForAllGetsAll) {
    sys.dead.push_back({++orphan, 0});
    children.reap();
    EXPECT_THAT(sys.dead, IsEmpty());
}

TEST_F(ChildrenTest, OursMakeNoStorm) {
    children.make_room(40);
    for (std::uint32_t number = 1; number <= 33; ++number)
        (void)start(number);
    for (pid_t pid = FakeSys::first_pid; pid < FakeSys::first_pid + 31; ++pid)
        sys.end(pid, exited(0));
    children.note_end(FakeSys::first_pid);
    EXPECT_EQ(told.size(), 31);
    sys.dead.push_back({10'000, 0});
    children.note_end(10'000);
    EXPECT_THAT(sys.dead, IsEmpty());
}

/// A filter of system calls that a container runtime has put upon us.
TEST_F(ChildrenTest, RefusesToStartWhereItCannotWait) {
    sys.refuses_to_wait = true;
    sys.wait_errors = {0, EPERM};
    Result<> checked = children.check();
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().text(), "cannot wait for children: Operation not permitted");
    sys.wait_errors = {ENOSYS};
    checked = children.check();
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().text(), "cannot look for children that have ended: Function not implemented");
    sys.refuses_to_wait = false;
    sys.wait_errors = {EINTR, ECHILD};
    EXPECT_TRUE(children.check());
}

}  // namespace

}  // namespace triton::launcher
