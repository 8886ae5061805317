#include "host/machine/steps.h"

#include <optional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::machine {
namespace {

/// SIGKILL: nothing of ours runs any more.
struct Killed {};

/// A world of parts that an operation makes or removes. It is killed at the n-th thing that happens in it.
class World {
public:
    std::set<std::string> parts;
    std::optional<Mark> mark;
    int kill_at = -1;
    int happened = 0;
    std::string fails_at = {};
    bool takes_marks = true;

    void happen() {
        if (happened++ == kill_at) throw Killed{};
    }
    Step making(std::string_view name) {
        return {.name = name,
                .run = [this, name] { return change(name, true); },
                .undo = [this, name] { return change(name, false); }};
    }
    Step removing(std::string_view name) {
        return {.name = name, .run = [this, name] { return change(name, false); }};
    }
    Operation create() {
        return {.name = "create",
                .after_kill = Outcome::undone,
                .steps = {making("file"), making("tree"), making("config"), making("unit")}};
    }
    Operation remove() {
        return {.name = "delete",
                .after_kill = Outcome::finished,
                .steps = {removing("unit"), removing("config"), removing("tree"), removing("file")}};
    }

private:
    /// Killed before it, in its middle and after it.
    Result<> change(std::string_view name, bool is_there) {
        happen();
        if (is_there && fails_at == name) return fail("no room for " + std::string(name));
        if (is_there)
            parts.insert(std::string(name) + ".half");
        else
            parts.erase(std::string(name));
        happen();
        parts.erase(std::string(name) + ".half");
        if (is_there) parts.insert(std::string(name));
        happen();
        return {};
    }
};

class FakeJournal final : public Journal {
public:
    explicit FakeJournal(World& world) : world_(world) {}
    Result<> write(Mark const& mark) override {
        if (!world_.takes_marks) return fail("no room for a mark");
        world_.happen();
        world_.mark = mark;
        world_.happen();
        return {};
    }
    Result<> remove() override {
        world_.happen();
        world_.mark.reset();
        world_.happen();
        return {};
    }

private:
    World& world_;
};

std::set<std::string> const all{"config", "file", "tree", "unit"};

/// Runs, is killed at the n-th event, and is resumed, being killed there too at the m-th. Returns whether the n-th
/// came.
template <class Make>
bool kill_and_resume(World& world, Make make, int first, int second) {
    FakeJournal journal(world);
    world.kill_at = first;
    try {
        (void)perform(make(world), journal);
        return false;
    } catch (Killed const&) {
    }
    for (int const kill_at : {second, -1}) {
        world.happened = 0;
        world.kill_at = kill_at;
        try {
            if (!world.mark) continue;
            EXPECT_TRUE(resume(make(world), *world.mark, journal));
        } catch (Killed const&) {
        }
    }
    return true;
}

TEST(Steps, ACreationThatIsKilledAnywhereIsWholeOrGone) {
    int kills = 0;
    for (int first = 0;; ++first) {
        World world;
        if (!kill_and_resume(world, [](World& w) { return w.create(); }, first, -1)) break;
        EXPECT_EQ(world.mark, std::nullopt) << first;
        EXPECT_TRUE(world.parts.empty() || world.parts == all) << first << ": " << testing::PrintToString(world.parts);
        ++kills;
    }
    EXPECT_EQ(kills, 4 * 3 + 4 * 2 + 2);
}

TEST(Steps, SoItIsWhenTheRecoveryIsKilledToo) {
    for (int first = 0; first < 22; ++first) {
        for (int second = 0; second < 30; ++second) {
            World world;
            ASSERT_TRUE(kill_and_resume(world, [](World& w) { return w.create(); }, first, second));
            EXPECT_EQ(world.mark, std::nullopt) << first << ", " << second;
            EXPECT_TRUE(world.parts.empty() || world.parts == all) << first << ", " << second;
        }
    }
}

TEST(Steps, ADeletionThatIsKilledAnywhereIsFinished) {
    for (int first = 0;; ++first) {
        for (int second = -1; second < 22; ++second) {
            World world;
            world.parts = all;
            if (!kill_and_resume(world, [](World& w) { return w.remove(); }, first, second)) return;
            EXPECT_EQ(world.mark, std::nullopt) << first;
            EXPECT_TRUE(world.parts.empty() || (first < 2 && world.parts == all)) << first << ", " << second;
        }
    }
}

TEST(Steps, AStepThatFailsIsTakenBackWithThoseBeforeIt) {
    World world;
    world.fails_at = "config";
    FakeJournal journal(world);
    std::vector<std::string> told;
    auto const done = perform(world.create(), journal, [&told](std::string_view operation, std::string_view step) {
        told.push_back(std::string(operation) + " " + std::string(step));
    });
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().text(), "no room for config");
    EXPECT_THAT(world.parts, testing::IsEmpty());
    EXPECT_EQ(world.mark, std::nullopt);
    EXPECT_THAT(told, testing::ElementsAre("create file", "create tree", "create config", "undo config", "undo tree",
                                           "undo file"));
}

TEST(Steps, WhatCannotBeTakenBackIsTriedAgainLater) {
    World world;
    FakeJournal journal(world);
    bool is_busy = true;
    auto const make = [&] {
        Operation create = world.create();
        create.steps[1].undo = [&]() -> Result<> {
            if (is_busy) return fail(ErrorKind::busy, "tree is busy");
            world.parts.erase("tree");
            return {};
        };
        return create;
    };
    world.fails_at = "unit";
    auto const done = perform(make(), journal);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().details, testing::ElementsAre("what was done could not be taken back: tree is busy"));
    EXPECT_EQ(world.parts, std::set<std::string>{"tree"});
    ASSERT_TRUE(world.mark);
    EXPECT_TRUE(world.mark->is_undone);
    is_busy = false;
    EXPECT_EQ(resume(make(), *world.mark, journal), Outcome::undone);
    EXPECT_THAT(world.parts, testing::IsEmpty());
}

/// The disk is full: what has failed for that leaves nothing, and what is not to be undone after a kill says why it
/// stays.
TEST(Steps, WhatWouldBeUndoneAfterAKillIsTakenBackWithoutAMark) {
    World world;
    FakeJournal journal(world);
    Operation create = world.create();
    create.steps[2].run = [&world]() -> Result<> {
        world.takes_marks = false;
        return fail("no room for config");
    };
    auto const made = perform(create, journal);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().text(), "no room for config");
    EXPECT_THAT(made.error().details, testing::IsEmpty());
    EXPECT_THAT(world.parts, testing::IsEmpty());
    EXPECT_EQ(world.mark, std::nullopt);

    world.takes_marks = true;
    Operation replace = create;
    replace.after_kill = Outcome::finished;
    replace.undone_before = 3;
    auto const replaced = perform(replace, journal);
    ASSERT_FALSE(replaced);
    EXPECT_THAT(replaced.error().details,
                testing::ElementsAre("what was done could not be taken back: no room for a mark"));
    EXPECT_TRUE(world.mark);
}

/// A replacement that only fails to be made leaves what is there, at once and after a kill.
/// Who would have undone it knew what was before, and nobody else does: it is not said to have been undone.
TEST(Steps, WhatNobodyKnowsHowToUndoIsFinished) {
    World world;
    world.parts = all;
    FakeJournal journal(world);
    Mark const mark{.operation = "delete", .step = 2, .is_undone = true};
    world.mark = mark;
    auto const done = resume(world.remove(), mark, journal);
    ASSERT_TRUE(done);
    EXPECT_EQ(*done, Outcome::finished);
    EXPECT_TRUE(world.parts.empty());
    EXPECT_FALSE(world.mark);
}

TEST(Steps, WhatIsFinishedIsTakenBackBeforeItsPointOfNoReturn) {
    for (bool const is_killed : {false, true}) {
        World world;
        world.parts = {"old"};
        world.fails_at = "config";
        FakeJournal journal(world);
        Operation const replace{.name = "replace",
                                .after_kill = Outcome::finished,
                                .undone_before = 2,
                                .steps = {world.making("tree"), world.making("config"), world.removing("old")}};
        if (is_killed)
            EXPECT_EQ(resume(replace, {.operation = "replace"}, journal), Outcome::undone);
        else
            EXPECT_EQ(perform(replace, journal).error().text(), "no room for config");
        EXPECT_EQ(world.parts, std::set<std::string>{"old"});
        EXPECT_EQ(world.mark, std::nullopt);
        world.fails_at = "";
        EXPECT_TRUE(perform(replace, journal));
        EXPECT_EQ(world.parts, (std::set<std::string>{"config", "tree"}));
    }
}

}  // namespace
}  // namespace triton::machine
