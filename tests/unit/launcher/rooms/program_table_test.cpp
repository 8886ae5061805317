// Which id a program has, which version a process runs, and who is shown.

#include "launcher/rooms/program_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::launcher {

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::shared_ptr<ProgramPlan> plan_of(std::string const& name, std::string const& version = "",
                                     std::uint32_t count = 1) {
    auto plan = std::make_shared<ProgramPlan>();
    plan->settings->name = name;
    if (!version.empty()) plan->settings->version = version;
    plan->policy.count = count;
    return plan;
}

class ProgramTableTest : public testing::Test {
protected:
    void take(Plans const& plans) {
        std::vector<ProgramId> const ids = table.choose_ids(plans);
        table.replace(table.make_room(ids));
        for (ProgramTable::Entry& entry : table.entries())
            entry.is_configured = false;
        auto specs = std::make_shared<std::vector<ProgramSpec>>();
        for (std::size_t i = 0; i < ids.size(); ++i) {
            ProgramTable::Entry& entry = table[ids[i]];
            entry.name = plans[i]->settings->name;
            entry.plan = plans[i];
            entry.is_configured = true;
            specs->push_back({ids[i], plans[i]->policy, true});
        }
        table.show(ids);
        tell(event::ConfigurationAccepted{specs});
    }
    void tell(Event const& event) {
        actions.clear();
        supervisor.handle(event, {}, actions);
    }
    std::vector<std::uint32_t> ids_for(Plans const& plans) const {
        std::vector<std::uint32_t> numbers;
        for (ProgramId const id : table.choose_ids(plans))
            numbers.push_back(static_cast<std::uint32_t>(id));
        return numbers;
    }

    Supervisor supervisor{SupervisorPolicy{}};
    std::vector<Action> actions;
    ProgramTable table{supervisor};
};

TEST_F(ProgramTableTest, AProgramKeepsItsIdWhateverItsPlaceInTheDocument) {
    take({plan_of("a"), plan_of("b")});
    EXPECT_THAT(ids_for({plan_of("b"), plan_of("c"), plan_of("a")}), ElementsAre(1, 2, 0));
}

TEST_F(ProgramTableTest, AnIdIsFreeWhenNothingOfItsProgramIsLeft) {
    take({plan_of("a"), plan_of("b")});
    tell(event::Spawned{{ProgramId{0}, ProcessNumber{1}}, Pid{10}});
    take({plan_of("b")});
    EXPECT_THAT(ids_for({plan_of("b"), plan_of("c")}), ElementsAre(1, 2)) << "a still runs";
    tell(event::Exited{{ProgramId{0}, ProcessNumber{1}}, 0});
    EXPECT_THAT(ids_for({plan_of("b"), plan_of("c")}), ElementsAre(1, 2)) << "its output is still there";
    table[ProgramId{0}] = {};
    EXPECT_THAT(ids_for({plan_of("b"), plan_of("c")}), ElementsAre(1, 0));
}

/// Of those that do nothing, too: a program with the id of another one would be taken for it.
TEST_F(ProgramTableTest, NoTwoHaveOneId) {
    take({plan_of("a", "1", 0)});
    EXPECT_THAT(ids_for({plan_of("b"), plan_of("a", "1", 0)}), ElementsAre(1, 0));
    take({plan_of("a", "1", 0), plan_of("b", "1", 0), plan_of("c", "1", 0)});
    take({plan_of("b", "1", 0)});
    EXPECT_THAT(ids_for({plan_of("d"), plan_of("a")}), ElementsAre(3, 0)) << "a comes back before it is forgotten";
    table[ProgramId{0}] = {};
    table[ProgramId{2}] = {};
    EXPECT_THAT(ids_for({plan_of("d"), plan_of("e"), plan_of("b", "1", 0), plan_of("f")}), ElementsAre(0, 2, 1, 3));
}

TEST_F(ProgramTableTest, WhatRunsUnconfiguredIsShownLast) {
    take({plan_of("a"), plan_of("b")});
    tell(event::Spawned{{ProgramId{0}, ProcessNumber{1}}, Pid{10}});
    take({plan_of("c"), plan_of("b")});
    std::vector<std::string> names;
    for (ProgramId const id : table.shown())
        names.push_back(table[id].name);
    EXPECT_THAT(names, ElementsAre("c", "b", "a"));
}

TEST_F(ProgramTableTest, KnowsNothingOfIdsThatItDoesNotHave) {
    take({plan_of("a")});
    EXPECT_EQ(table.name(7), "");
    EXPECT_EQ(table.find_instance({ProgramId{7}, ProcessNumber{1}}), nullptr);
    EXPECT_EQ(table.find_instance({ProgramId{0}, ProcessNumber{1}}), nullptr);
}

TEST_F(ProgramTableTest, AProcessRunsTheVersionThatItWasStartedWith) {
    ProgramTable::Entry entry;
    entry.plan = plan_of("a", "1", 2);
    entry.remember_version();
    entry.note_start(ProcessNumber{1});
    entry.note_start(ProcessNumber{2});
    entry.plan = plan_of("a", "2", 2);
    entry.remember_version();
    entry.note_start(ProcessNumber{2});
    EXPECT_EQ(entry.version_of(1), "1");
    EXPECT_EQ(entry.version_of(2), "2");
    EXPECT_EQ(entry.version_of(3), "");
    EXPECT_THAT(entry.versions, ElementsAre("1", "2"));
}

/// Whoever writes the document may change its version for ever.
TEST_F(ProgramTableTest, TheOldestVersionsAreNotToldApart) {
    ProgramTable::Entry entry;
    entry.plan = plan_of("a", "0", 2);
    entry.remember_version();
    entry.note_start(ProcessNumber{1});
    for (std::size_t version = 1; version <= ProgramTable::most_versions; ++version) {
        entry.plan = plan_of("a", std::to_string(version), 2);
        entry.remember_version();
        if (version == 2) entry.note_start(ProcessNumber{2});
    }
    EXPECT_EQ(entry.versions.size(), ProgramTable::most_versions);
    EXPECT_EQ(entry.version_of(1), "1") << "0 counts as the one after it";
    EXPECT_EQ(entry.version_of(2), "2");
}

TEST_F(ProgramTableTest, VersionsOutliveAnUpgrade) {
    take({plan_of("a", "1", 2)});
    table[ProgramId{0}].remember_version();
    table[ProgramId{0}].note_start(ProcessNumber{1});
    table[ProgramId{0}].plan = plan_of("a", "2", 2);
    table[ProgramId{0}].remember_version();
    table[ProgramId{0}].note_start(ProcessNumber{2});
    table[ProgramId{0}].instance(ProcessNumber{2}).status = "fine";
    UpgradeState state;
    table.save(state);
    ASSERT_EQ(state.instances.size(), 2);
    EXPECT_EQ(state.instances[1].status, "fine");

    ProgramTable other(supervisor);
    other.entries().resize(1);
    other[ProgramId{0}].name = "a";
    other[ProgramId{0}].plan = plan_of("a", "2", 2);
    other[ProgramId{0}].is_configured = true;
    other.restore_versions(state);
    EXPECT_EQ(other[ProgramId{0}].version_of(1), "1");
    EXPECT_EQ(other[ProgramId{0}].version_of(2), "2");
}

}  // namespace

}  // namespace triton::launcher
