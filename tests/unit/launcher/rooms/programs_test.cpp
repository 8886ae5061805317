// A configuration is taken whole or not at all, and what it has no more is let go of.

#include "launcher/rooms/programs.h"

#include <gmock/gmock.h>

#include "tests/unit/launcher/rooms/rooms_subject.h"

namespace triton::launcher {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ProgramsTest : public RoomsSubject {};

TEST_F(ProgramsTest, TheDesignsFormNeedsNothingBesideItsProcesses) {
    ASSERT_TRUE(activate(R"({"version":"7.1.57","arguments":[{"value":"/bin/fdbserver"}]})"));
    EXPECT_THAT(told, ElementsAre("accepted 1"));
    EXPECT_FALSE(expects_leftovers);
    EXPECT_EQ(channels.output(), nullptr);
}

TEST_F(ProgramsTest, NamedProgramsAreShownInTheDocumentsOrder) {
    ASSERT_TRUE(activate(R"({"programs":{"b":{"command":["/bin/b"]},"a":{"command":["/bin/a"]}}})"));
    EXPECT_THAT(shown(), ElementsAre("b", "a"));
    EXPECT_TRUE(expects_leftovers);
}

TEST_F(ProgramsTest, WantOfMemoryChangesNothing) {
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"]}}})"));
    start();
    auto const before = table[ProgramId{0}].plan;
    has_no_memory = true;
    Accepted const wanted = load(R"({"programs":{"a":{"command":["/bin/new"]},"b":{"command":["/bin/b"]}}})");
    bool is_taken = false;
    EXPECT_THROW((void)programs.activate(&wanted, true, [&] { is_taken = true; }), std::bad_alloc);
    EXPECT_FALSE(is_taken);
    EXPECT_EQ(table[ProgramId{0}].plan, before);
    EXPECT_THAT(shown(), ElementsAre("a"));
    EXPECT_THAT(told, ElementsAre("accepted 1"));
}

TEST_F(ProgramsTest, ARefusedConfigurationChangesNothing) {
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"]}}})"));
    Accepted const wanted = load(R"({"programs":{"a":{"command":["/bin/new"],"output":{"file":")" + directory +
                                 R"("}},"b":{"command":["/bin/b"]}}})");
    Result<> const refused = programs.activate(&wanted, true);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().text(), "programs.a.output: cannot open " + directory + ": Is a directory");
    EXPECT_EQ(table.size(), 1);
    EXPECT_STREQ(table[ProgramId{0}].plan->start->program(), "/bin/a");
    EXPECT_THAT(told, ElementsAre("accepted 1"));
}

TEST_F(ProgramsTest, WhatIsGoneIsForgottenOnceItHasEnded) {
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"]},"b":{"command":["/bin/b"]}}})"));
    start();
    ASSERT_TRUE(activate(R"({"programs":{"b":{"command":["/bin/b"]}}})"));
    until([this] { return told.back() == "settled"; });
    EXPECT_THAT(shown(), ElementsAre("b", "a"));
    EXPECT_EQ(table[ProgramId{0}].name, "a");
    end(FakeSys::first_pid);
    told.clear();
    programs.settle_soon();
    until([this] { return !told.empty(); });
    EXPECT_THAT(shown(), ElementsAre("b"));
    EXPECT_EQ(table[ProgramId{0}].plan, nullptr);
}

/// `ctl logs` of the new one must not show what the one before it has said.
TEST_F(ProgramsTest, AnIdIsFreeOnlyWithoutTheOutputOfTheOneBefore) {
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"],"output":{}},"b":{"command":["/bin/b"]}}})"));
    start();
    auto const opened = channels.output()->write_ends({0, 1});
    ASSERT_TRUE(opened);
    ASSERT_EQ(::write(opened->out, "secret\n", 7), 7);
    ASSERT_TRUE(activate(R"({"programs":{"b":{"command":["/bin/b"]}}})"));
    end(FakeSys::first_pid);
    EXPECT_GT(channels.output()->kept(0).next, 1);
    ASSERT_TRUE(activate(R"({"programs":{"b":{"command":["/bin/b"]},"c":{"command":["/bin/c"],"output":{}}}})"));
    EXPECT_EQ(table[ProgramId{0}].name, "c");
    EXPECT_EQ(channels.output()->kept(0).next, 1);
}

TEST_F(ProgramsTest, AnIsolatedPodRunsNothing) {
    options.agent.is_reporting = true;
    agent.set_pod(isolated());
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"],"count":3}}})"));
    start();
    EXPECT_EQ(sys.started, 0);
    EXPECT_EQ(supervisor.policy(ProgramId{0}).count, 0);
    agent.set_pod({});
    ASSERT_TRUE(programs.activate(active.get(), false));
    start();
    EXPECT_EQ(sys.started, 3);
}

/// Nothing that somebody has taken away meanwhile keeps it from coming.
TEST_F(ProgramsTest, AnIsolationComesThoughASocketHasLostItsName) {
    options.agent.is_reporting = true;
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"],"sockets":[{"name":"s","listen":"unix:)" +
                         directory + R"(/socket"}]}}})"));
    ASSERT_TRUE(std::filesystem::remove(directory + "/socket"));
    agent.set_pod(isolated());
    Result<> const done = programs.activate(active.get(), false);
    EXPECT_TRUE(done) << done.error().text();
    EXPECT_EQ(supervisor.policy(ProgramId{0}).count, 0);
}

TEST_F(ProgramsTest, RunsOfASchedulePassWithTheConfigurationThatHasIt) {
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"],"schedule":{"every":"1h"}}}})"));
    auto const next = programs.next_run_in(ProgramId{0});
    ASSERT_TRUE(next);
    EXPECT_GT(*next, std::chrono::minutes(50));
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"]}}})"));
    EXPECT_FALSE(programs.next_run_in(ProgramId{0}));
}

/// An isolation that comes more often than the schedule would else keep the program from running for ever.
TEST_F(ProgramsTest, ASchedulesTimePassesWhileNothingMayRun) {
    std::string const program = R"("programs":{"a":{"command":["/bin/a"],"schedule":{"every":"1h","onStart":true}}}})";
    ASSERT_TRUE(activate("{" + program));
    until([this] { return !actions.empty(); });
    start();
    end(FakeSys::first_pid);
    EXPECT_EQ(sys.started, 1);
    auto const before = programs.next_run_in(ProgramId{0});
    ASSERT_TRUE(before);
    ASSERT_TRUE(activate(R"({"runServers":false,)" + program));
    EXPECT_FALSE(programs.next_run_in(ProgramId{0}));
    UpgradeState state = RoomsSubject::state();
    programs.save(state);
    ASSERT_EQ(state.schedules.size(), 1U);
    state.schedules[0].when -= std::chrono::minutes(50);
    programs.restore_schedules(state, active.get());
    EXPECT_FALSE(programs.next_run_in(ProgramId{0}));
    ASSERT_TRUE(activate("{" + program));
    auto const after = programs.next_run_in(ProgramId{0});
    ASSERT_TRUE(after);
    EXPECT_LT(*after, std::chrono::minutes(11));
    EXPECT_GT(*after, std::chrono::minutes(9)) << "no run for having come back";
}

TEST_F(ProgramsTest, WhatIsDueWhileNothingMayRunIsDropped) {
    options.agent.is_reporting = true;
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"],"schedule":{"every":"50ms"}}}})"));
    agent.set_pod(isolated());
    ASSERT_TRUE(programs.activate(active.get(), false));
    UpgradeState state = RoomsSubject::state();
    programs.save(state);
    ASSERT_EQ(state.schedules.size(), 1U);
    TimePoint const due = state.schedules[0].when;
    until([&] {
        programs.save(state);
        return state.schedules[0].when > due;
    });
    EXPECT_THAT(actions, IsEmpty());
    EXPECT_THAT(logged(), testing::Not(testing::HasSubstr("skipped")));
}

TEST_F(ProgramsTest, TheNextRunOutlivesAnUpgrade) {
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"],"schedule":{"every":"1h"}}}})"));
    UpgradeState state = RoomsSubject::state();
    programs.save(state);
    ASSERT_EQ(state.schedules.size(), 1U);
    state.schedules[0].when -= std::chrono::minutes(50);
    programs.restore_schedules(state, active.get());
    auto const next = programs.next_run_in(ProgramId{0});
    ASSERT_TRUE(next);
    EXPECT_LT(*next, std::chrono::minutes(11));
}

}  // namespace

}  // namespace triton::launcher
