// Whom a signal is for, and that what a process has started ends with it.

#include "launcher/rooms/process_trees.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include <gmock/gmock.h>
#include <sys/socket.h>

#include "tests/unit/launcher/rooms/rooms_subject.h"

namespace triton::launcher {

namespace {

using action::Why;
using process::SpawnError;
using process::SpawnStage;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr char const* design_form = R"({"version":"7.1.57","arguments":[{"value":"/bin/fdbserver"}]})";
constexpr char const* one_program = R"({"programs":{"web":{"command":["/bin/web"]}}})";
constexpr char const* whole_tree = R"({"programs":{"web":{"command":["/bin/web"],"stopScope":"tree"}}})";
constexpr char const* daemon_program =
    R"({"programs":{"web":{"command":["/bin/web"],"pidFile":"/run/of/nobody.pid"}}})";

class ProcessTreesTest : public RoomsSubject {
protected:
    static constexpr ProcessId first{ProgramId{0}, ProcessNumber{1}};
    static constexpr pid_t pid = FakeSys::first_pid;

    void run(char const* document) {
        ASSERT_TRUE(activate(document));
        start();
        ASSERT_EQ(supervisor.view(first).pid, Pid{pid});
        sys.calls.clear();
    }
    int signal(int signo, Why why, StopScope scope = StopScope::process) {
        return trees.signal(action::Signal{first, Pid{pid}, signo, why, scope});
    }
    /// What was done with processes since this was last asked: "kill PID SIGNAL", "spawn PROGRAM NUMBER", "list".
    std::vector<std::string> calls() {
        std::erase(sys.calls, "copy");  // which reads a pid file
        return std::exchange(sys.calls, {});
    }

    /// From here on there is a tree of control groups: a directory that plays one, in which there is nobody.
    void have_groups() {
        UpgradeState state;
        state.cgroup_tree = directory + "/tree";
        std::filesystem::create_directories(group());
        play(state.cgroup_tree + "/cgroup.subtree_control");
        play(group() + "/cgroup.procs");
        std::ofstream(group() + "/cgroup.freeze") << "untouched";
        channels.restore_groups(state);
        ASSERT_TRUE(channels.has_groups());
    }
    [[nodiscard]] std::string group() const { return directory + "/tree/web-1"; }
    static void play(std::string const& file) { std::ofstream const made(file); }
    /// Whoever kills a group freezes it meanwhile.
    [[nodiscard]] bool was_group_killed() const { return content(group() + "/cgroup.freeze") == "0"; }
    static std::string content(std::string const& path) {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }
};

TEST_F(ProcessTreesTest, ATreeWithoutAGroupIsKnownByItsMark) {
    run(R"({"programs":{"web":{"command":["/bin/web"],"count":2}}})");
    std::uint64_t const second = sys.last_files.mark;
    EXPECT_GE(second, process::lowest_mark);
    ASSERT_TRUE(trees.start(first));
    EXPECT_LT(sys.last_files.mark, second) << "which a process that has the earlier one may set";
    EXPECT_GE(sys.last_files.mark, process::lowest_mark);
}

/// Who waits for the process would otherwise sit at a terminal without one.
TEST_F(ProcessTreesTest, AFailedStartLeavesNoTerminal) {
    ASSERT_TRUE(activate(R"({"programs":{"web":{"command":["/bin/web"],"tty":true}}})"));
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    UniqueFd const client{ends[0]};
    channels.attach(first, 0, {.connection = UniqueFd{ends[1]}, .follows = true});
    sys.spawn_errors = {EAGAIN};
    EXPECT_FALSE(trees.start(first));
    EXPECT_FALSE(channels.check_attachment(first, false)) << "there is none to attach to";
    std::string frames(100, '\0');
    ssize_t const size = ::read(client.get(), frames.data(), frames.size());
    frames.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    std::string wanted;
    append_attach_frame(wanted, AttachFrame::started);
    append_attach_frame(wanted, AttachFrame::ended, std::to_string(127 << 8));
    EXPECT_EQ(frames, wanted);
}

TEST_F(ProcessTreesTest, ATreeThatIsLeftAloneHasNoMark) {
    run(design_form);
    EXPECT_EQ(sys.last_files.mark, 0);
}

TEST_F(ProcessTreesTest, AProgramsOwnLimitLeavesTheOtherHalfOfTheMark) {
    run(R"({"programs":{"web":{"command":["/bin/web"],"limits":{"nofile":100,"rttime":1000000}}}})");
    std::uint64_t const mark = sys.last_files.mark;
    ASSERT_NE(mark, 0);
    sys.marks = {{pid, 0}, {500, 0}};
    sys.rising_marks = {{pid, mark}, {500, mark}};
    sys.dead = {{pid, 0}};
    trees.before_reaping(first, pid);
    EXPECT_THAT(calls(), ElementsAre("kill -100 9", "list", "kill 500 9"));
}

/// Its limits are its own: it may have taken the mark of a program that was started later.
TEST_F(ProcessTreesTest, AProcessCannotHaveOthersKilledWithIt) {
    run(one_program);
    std::uint64_t const mark = sys.last_files.mark;
    std::uint64_t const victim = mark - 1000;
    sys.marks = {{pid, victim}, {500, victim}, {501, mark}};
    sys.rising_marks = {{pid, 0}, {501, 0}};
    sys.dead = {{pid, 0}};
    trees.before_reaping(first, pid);
    EXPECT_THAT(calls(), ElementsAre("kill -100 9", "list", "kill 501 9"));
}

/// A version before this one has set only one limit. What has changed the other one since says nothing about itself.
TEST_F(ProcessTreesTest, AfterAnUpgradeAChangedMarkCountsForNothing) {
    run(one_program);
    for (std::uint64_t const other : {FakeSys::unset, std::uint64_t{0}}) {
        sys.marks = {{300, process::highest_mark}, {500, process::highest_mark}};
        sys.rising_marks = {{300, other}};
        children.adopt({ProgramId{0}, ProcessNumber{2}}, Pid{300}, std::nullopt);
        sys.dead = {{300, 0}};
        trees.before_reaping({ProgramId{0}, ProcessNumber{2}}, 300);
        bool const is_older = other == FakeSys::unset;
        EXPECT_THAT(calls(), is_older ? testing::Matcher<std::vector<std::string>>(Contains("kill 500 9"))
                                      : ElementsAre("kill -300 9"));
        children.follow({ProgramId{0}, ProcessNumber{2}}, Pid{300}, Pid{301});
    }
}

/// The version before knew its mark, which the process itself may have changed since.
TEST_F(ProcessTreesTest, AfterAnUpgradeAMarkThatWasHandedOnCounts) {
    run(one_program);
    std::uint64_t const mark = sys.last_files.mark - 1000;
    sys.marks = {{300, 0}, {500, mark}};
    children.adopt({ProgramId{0}, ProcessNumber{2}}, Pid{300}, mark);
    sys.dead = {{300, 0}};
    trees.before_reaping({ProgramId{0}, ProcessNumber{2}}, 300);
    EXPECT_THAT(calls(), Contains("kill 500 9"));
}

/// Who waits for a stop waits for all that the process has started, but not for ever.
TEST_F(ProcessTreesTest, WhatIsLeftBehindIsKnownUntilItHasEnded) {
    run(one_program);
    EXPECT_EQ(trees.leftovers(first), Leftovers::none);
    sys.marks = {{500, sys.last_files.mark}};
    trees.before_reaping(first, pid);
    EXPECT_EQ(trees.leftovers(first), Leftovers::ending);
    EXPECT_EQ(trees.leftovers({ProgramId{0}, ProcessNumber{2}}), Leftovers::none);
    sys.marks = {};
    sys.end(500, SIGKILL);
    children.reap();
    until([this] { return trees.leftovers(first) == Leftovers::none; });
    EXPECT_EQ(trees.leftovers(first), Leftovers::none);
}

TEST_F(ProcessTreesTest, AnotherLimitLeavesTheMark) {
    run(R"({"programs":{"web":{"command":["/bin/web"],"limits":{"nofile":100}}}})");
    EXPECT_NE(sys.last_files.mark, 0);
}

TEST_F(ProcessTreesTest, ATreeInAGroupNeedsNoMark) {
    have_groups();
    run(one_program);
    EXPECT_EQ(sys.last_files.mark, 0);
    EXPECT_GE(sys.last_files.cgroup, 0);
}

/// What it leaves behind can be told from what the process has started, and has the same limits.
TEST_F(ProcessTreesTest, AHelperCommandRunsInAGroupBelow) {
    have_groups();
    run(one_program);
    std::string const below = group() + "/helper-" + std::to_string(static_cast<int>(Helper::health));
    auto const hands = channels.for_command(first, Helper::health);
    ASSERT_TRUE(hands) << hands.error().text();
    EXPECT_EQ(hands->files.cgroup, hands->group.get());
    ASSERT_TRUE(std::filesystem::is_directory(below));
    std::ofstream(below + "/cgroup.freeze") << "untouched";
    play(below + "/cgroup.procs");
    channels.command_ended(first, Helper::pre_stop);
    EXPECT_EQ(content(below + "/cgroup.freeze"), "untouched") << "that is another one";
    channels.command_ended(first, Helper::health);
    EXPECT_EQ(content(below + "/cgroup.freeze"), "0") << "who kills a group freezes it meanwhile";
}

/// The end of the process does not end its hooks, which are under way for it.
TEST_F(ProcessTreesTest, AHelperCommandIsNotPartOfTheTree) {
    have_groups();
    run(one_program);
    ASSERT_TRUE(channels.for_command(first, Helper::on_failure));
    std::string const below = group() + "/helper-" + std::to_string(static_cast<int>(Helper::on_failure));
    std::ofstream(below + "/cgroup.procs") << "4711\n";
    EXPECT_FALSE(channels.has_group_members(first));
    EXPECT_FALSE(channels.is_in_group(first, 4711));
    std::ofstream(group() + "/cgroup.procs") << "4712\n";
    EXPECT_TRUE(channels.has_group_members(first));
    EXPECT_TRUE(channels.is_in_group(first, 4712));
}

TEST_F(ProcessTreesTest, WhatHasGoneFromTheDocumentIsNotStarted) {
    run(one_program);
    ProgramPlan without = *table[first.program].plan;
    without.start = nullptr;
    table[first.program].plan = std::make_shared<ProgramPlan const>(std::move(without));
    auto started = trees.start(first);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error(), (SpawnError{SpawnStage::execute, ENOENT}));
    table[first.program].plan = nullptr;
    started = trees.start(first);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error(), (SpawnError{SpawnStage::execute, ENOENT}));
    EXPECT_THAT(calls(), Not(Contains(StartsWith("spawn"))));
}

TEST_F(ProcessTreesTest, WithoutWhatItIsGivenNothingIsStarted) {
    have_groups();
    ASSERT_TRUE(activate(one_program));
    std::filesystem::remove_all(directory + "/tree");
    auto const started = trees.start(first);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error(), (SpawnError{SpawnStage::cgroup, ENOENT}));
    EXPECT_THAT(calls(), Not(Contains(StartsWith("spawn"))));
}

/// Its file system may not answer.
TEST_F(ProcessTreesTest, TheChildOpensTheFileOfItsInput) {
    ASSERT_TRUE(activate(R"({"programs":{"web":{"command":["/bin/web"],"count":2,"stdin":{"file":{"type":"Concatenate",
                             "values":["/none/",{"type":"ProcessNumber"}]}}}}})"));
    ASSERT_TRUE(trees.start({ProgramId{0}, ProcessNumber{2}}));
    ASSERT_NE(sys.last_files.input, nullptr);
    EXPECT_THAT(sys.last_files.input->arguments(ProcessNumber{2}), ElementsAre("/none/2"));
    EXPECT_EQ(sys.last_files.in, -1);
    EXPECT_THAT(calls(), Contains("spawn /bin/web 2"));
}

TEST_F(ProcessTreesTest, AStartThatTheKernelRefusesSaysWhy) {
    ASSERT_TRUE(activate(one_program));
    sys.spawn_errors = {EAGAIN};
    auto const started = trees.start(first);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error(), (SpawnError{SpawnStage::clone, EAGAIN}));
}

/// ctl status tells which version a process runs.
TEST_F(ProcessTreesTest, AStartRunsTheVersionThatIsConfigured) {
    run(R"({"programs":{"web":{"command":["/bin/web"],"version":"1"}}})");
    ASSERT_TRUE(activate(R"({"programs":{"web":{"command":["/bin/web"],"version":"2"}}})"));
    EXPECT_EQ(table[first.program].version_of(1), "1");
    ASSERT_TRUE(trees.start(first));
    EXPECT_EQ(table[first.program].version_of(1), "2");
}

TEST_F(ProcessTreesTest, WhomASignalIsFor) {
    run(one_program);
    signal(SIGTERM, Why::stop);
    EXPECT_THAT(calls(), ElementsAre("kill 100 15"));
    signal(SIGTERM, Why::stop, StopScope::tree);
    EXPECT_THAT(calls(), ElementsAre("kill -100 15"));
    signal(SIGABRT, Why::watchdog);
    EXPECT_THAT(calls(), ElementsAre("kill 100 6"));
    signal(SIGKILL, Why::asked);  // ctl kill names a process
    EXPECT_THAT(calls(), ElementsAre("kill 100 9"));
    signal(SIGKILL, Why::kill);
    EXPECT_THAT(calls(), ElementsAre("kill -100 9", "kill 100 9")) << "it may not be in its process group yet";
}

TEST_F(ProcessTreesTest, WithoutAProcessGroupTheProcessItselfIsSignalled) {
    run(one_program);
    sys.signal_errors = {{-pid, ESRCH}};
    signal(SIGTERM, Why::stop, StopScope::tree);
    EXPECT_THAT(calls(), ElementsAre("kill -100 15", "kill 100 15"));
}

TEST_F(ProcessTreesTest, TheOptionForGroupsIsForTheUnnamedProgram) {
    options.kill_group = true;
    run(design_form);
    signal(SIGUSR1, Why::forward);
    EXPECT_THAT(calls(), ElementsAre("kill -100 10"));
}

TEST_F(ProcessTreesTest, TheOptionForGroupsIsNotForNamedPrograms) {
    options.kill_group = true;
    run(one_program);
    signal(SIGUSR1, Why::forward);
    EXPECT_THAT(calls(), ElementsAre("kill 100 10"));
}

/// The group of this test is empty.
TEST_F(ProcessTreesTest, WhoIsNotInItsControlGroupIsSignalledAsWell) {
    have_groups();
    run(one_program);
    signal(SIGTERM, Why::stop, StopScope::tree);
    EXPECT_THAT(calls(), ElementsAre("kill -100 15")) << "it is on its way there, or has left it";
    signal(SIGTERM, Why::stop);
    EXPECT_THAT(calls(), ElementsAre("kill 100 15"));
    EXPECT_FALSE(was_group_killed());
    signal(SIGKILL, Why::kill);
    EXPECT_THAT(calls(), ElementsAre("kill -100 9", "kill 100 9"));
    EXPECT_TRUE(was_group_killed());
}

TEST_F(ProcessTreesTest, AControlGroupThatCannotBeReadIsMadeUpFor) {
    have_groups();
    run(one_program);
    std::filesystem::remove(group() + "/cgroup.procs");
    std::filesystem::create_directory(group() + "/cgroup.procs");
    signal(SIGTERM, Why::stop, StopScope::tree);
    EXPECT_THAT(calls(), ElementsAre("kill -100 15"));
}

TEST_F(ProcessTreesTest, WhatAProcessLeavesBehindIsKilled) {
    run(one_program);
    std::uint64_t const mark = sys.last_files.mark;
    sys.marks = {{pid, mark}, {500, mark}, {501, mark - 1}};
    sys.dead = {{pid, 0}};
    trees.before_reaping(first, pid);
    EXPECT_THAT(calls(), ElementsAre("kill -100 9", "list", "kill 500 9")) << "501 is another's";
}

TEST_F(ProcessTreesTest, ASignalThatIsRefusedIsNotLost) {
    run(one_program);
    sys.signal_errors = {{-pid, EPERM}, {pid, EPERM}};
    EXPECT_EQ(signal(SIGTERM, Why::stop), EPERM);
    EXPECT_EQ(signal(SIGTERM, Why::stop, StopScope::tree), EPERM);
    EXPECT_EQ(signal(SIGKILL, Why::kill), EPERM);
    sys.signal_errors = {};
    EXPECT_EQ(signal(SIGKILL, Why::kill), 0);
}

TEST_F(ProcessTreesTest, WhatATreeThatStopsAsAWholeLeavesBehindHasTime) {
    run(whole_tree);
    told.clear();
    std::uint64_t const mark = sys.last_files.mark;
    sys.marks = {{pid, mark}, {500, mark}, {501, mark - 1}};
    trees.before_reaping(first, pid);
    EXPECT_THAT(calls(), IsEmpty());
    sys.marks.erase(pid);
    EXPECT_TRUE(trees.leave(first));
    EXPECT_THAT(calls(), ElementsAre("list"));
    trees.signal(action::SignalRest{first, SIGTERM, Why::stop});
    EXPECT_THAT(calls(), ElementsAre("list", "kill 500 15")) << "501 is another's";
    sys.marks.erase(500);
    left_trees.orphan_reaped();
    until([this] { return !told.empty(); });
    EXPECT_THAT(told, ElementsAre("empty 0:1"));
}

TEST_F(ProcessTreesTest, WhoOfTheRestCannotBeSignalledIsTold) {
    run(whole_tree);
    std::uint64_t const mark = sys.last_files.mark;
    sys.marks = {{500, mark}, {501, mark}, {502, mark}};
    sys.signal_errors = {{501, EPERM}, {502, ESRCH}};
    trees.before_reaping(first, pid);
    ASSERT_TRUE(trees.leave(first));
    auto const refused = trees.signal(action::SignalRest{first, SIGTERM, Why::stop});
    EXPECT_EQ(refused.count, 1U) << "502 has ended meanwhile";
    EXPECT_EQ(refused.pid, 501);
    EXPECT_EQ(refused.error, EPERM);
}

TEST_F(ProcessTreesTest, WhatIsLeftOfATreeIsKilledWhenItsTimeHasPassed) {
    run(whole_tree);
    told.clear();
    std::uint64_t const mark = sys.last_files.mark;
    sys.marks = {{500, mark}};  // the process itself has changed its limits; the mark of its start is remembered
    trees.before_reaping(first, pid);
    ASSERT_TRUE(trees.leave(first));
    calls();
    trees.signal(action::SignalRest{first, SIGKILL, Why::kill});
    EXPECT_THAT(calls(), ElementsAre("list", "kill 500 9"));
    trees.signal(action::SignalRest{first, SIGTERM, Why::stop});
    EXPECT_THAT(calls(), IsEmpty()) << "it is forgotten";
}

TEST_F(ProcessTreesTest, AnEmptyTreeNeedsNoTime) {
    run(whole_tree);
    told.clear();
    sys.marks = {{pid, sys.last_files.mark}};
    trees.before_reaping(first, pid);
    sys.marks = {};
    EXPECT_FALSE(trees.leave(first));
    EXPECT_TRUE(told.empty());
}

TEST_F(ProcessTreesTest, WhatAProcessLeavesInItsGroupIsKilledThere) {
    have_groups();
    run(one_program);
    sys.marks = {{pid, process::highest_mark}, {500, process::highest_mark}};
    trees.before_reaping(first, pid);
    EXPECT_THAT(calls(), ElementsAre("kill -100 9")) << "nobody is looked for by a mark";
    EXPECT_TRUE(was_group_killed());
}

TEST_F(ProcessTreesTest, ATreeThatIsLeftAloneGoesOn) {
    run(design_form);
    trees.before_reaping(first, pid);
    EXPECT_THAT(calls(), IsEmpty());
    table[first.program].plan = nullptr;
    trees.before_reaping(first, pid);
    EXPECT_THAT(calls(), IsEmpty());
}

/// The end of its first process is the way of a daemon: what it has started ends when it is known to be over.
TEST_F(ProcessTreesTest, ADaemonOutlivesItsFirstProcess) {
    run(daemon_program);
    std::uint64_t const mark = sys.last_files.mark;
    ASSERT_NE(mark, 0);
    sys.marks = {{500, mark}};
    EXPECT_TRUE(pid_files.is_own(first, 500));
    trees.before_reaping(first, pid);
    EXPECT_THAT(calls(), IsEmpty());
    trees.end(first);
    EXPECT_THAT(calls(), ElementsAre("list", "kill 500 9"));
    EXPECT_FALSE(pid_files.is_own(first, 500));
    trees.end(first);
    EXPECT_THAT(calls(), IsEmpty()) << "its mark is forgotten";
}

TEST_F(ProcessTreesTest, ADaemonWhosePidFileLeavesTheConfigurationEndsWithItsTree) {
    run(daemon_program);
    std::uint64_t const mark = sys.last_files.mark;
    sys.marks = {{pid, mark}, {500, mark}};
    ASSERT_TRUE(activate(R"({"programs":{"web":{"command":["/bin/web"],"onChange":"keep"}}})"));
    calls();
    trees.before_reaping(first, pid);
    EXPECT_THAT(calls(), Contains("kill 500 9"));
}

TEST_F(ProcessTreesTest, AStartWithoutAPidFileForgetsTheOneBefore) {
    run(daemon_program);
    ASSERT_TRUE(activate(R"({"programs":{"web":{"command":["/bin/web"],"onChange":"keep"}}})"));
    ASSERT_TRUE(trees.start(first));
    EXPECT_FALSE(pid_files.has(first));
}

/// A copy that fails, for want of memory perhaps, is not followed by the next one at once.
TEST_F(ProcessTreesTest, APidFileThatNobodyCanReadIsLeftForAMoment) {
    run(daemon_program);
    sys.copies_hang = true;  // nothing comes from it
    pid_files.orphan_reaped();
    TimePoint const end = std::chrono::steady_clock::now() + milliseconds(100);
    EventLoop::Timer last(*loop, [] {});
    last.arm(end);
    until([end] { return std::chrono::steady_clock::now() >= end; });
    EXPECT_THAT(std::ranges::count(sys.calls, "copy"), testing::AllOf(testing::Ge(1), testing::Le(2)));
}

/// They are looked at in two parts.
TEST_F(ProcessTreesTest, WhatChangesBetweenTwoLooksAtManyPidFilesIsSeen) {
    ASSERT_TRUE(activate(R"({"programs":{"web":{"command":["/bin/web"],"count":70,"autoStart":false,"pidFile":
                             {"type":"Concatenate","values":["/run/of/nobody.",{"type":"ProcessNumber"}]}}}})"));
    for (std::uint32_t number = 1; number <= 70; ++number)
        pid_files.starting({ProgramId{0}, ProcessNumber{number}}, process::highest_mark);
    sys.calls.clear();
    auto const copies = [this] { return std::ranges::count(sys.calls, "copy"); };
    until([&] { return copies() == 2; });  // for the directories, and the first part
    pid_files.orphan_reaped();
    until([&] { return copies() == 5; });
    EXPECT_EQ(copies(), 5) << "both parts again";
}

TEST_F(ProcessTreesTest, ADaemonEndsWithItsGroup) {
    have_groups();
    run(daemon_program);
    trees.before_reaping(first, pid);
    EXPECT_FALSE(was_group_killed());
    trees.end(first);
    EXPECT_TRUE(was_group_killed());
    EXPECT_THAT(calls(), IsEmpty());
}

TEST_F(ProcessTreesTest, OnlyPid1SweepsItsNamespace) {
    trees.sweep(SIGTERM);
    EXPECT_THAT(calls(), IsEmpty());
    sys.own = 1;
    trees.sweep(SIGTERM);
    std::vector<std::string> const asked = calls();
    ASSERT_GE(asked.size(), 3U);
    EXPECT_EQ(asked[0], "kill -1 15");
    EXPECT_EQ(asked[1], "kill -1 18") << "what is stopped would not hear it";
    EXPECT_THAT(asked[2], StartsWith("reap"));
    trees.sweep(SIGKILL);
    std::vector<std::string> const killed = calls();
    ASSERT_GE(killed.size(), 2U);
    EXPECT_EQ(killed[0], "kill -1 9");
    EXPECT_THAT(killed[1], StartsWith("reap"));
}

}  // namespace

}  // namespace triton::launcher
