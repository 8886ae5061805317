// Which configuration is active, which was rejected and why, and when the file is looked at again.

#include "launcher/rooms/configuration_keeper.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "tests/unit/launcher/rooms/rooms_subject.h"

namespace triton::launcher {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char const* good = R"({"programs":{"a":{"command":["/bin/true"]}}})";
constexpr char const* better = R"({"programs":{"a":{"command":["/bin/true"]},"b":{"command":["/bin/true"]}}})";

class ConfigurationKeeperTest : public RoomsSubject {
protected:
    void begin(std::string_view text) {
        write(options.configuration_path, text);
        keeper.tell(keeper.look_first());
        look();  // from here on it is watched
        told.clear();
    }
    /// And what the copy that goes first has to do with it, if it comes back.
    void look() {
        keeper.look_again();
        scout_returns();
    }
    /// The time of the copy that looks is over.
    void be_late() {
        auto late = children.commands();
        for (auto& one : late)
            if (one.deadline) one.deadline = std::chrono::steady_clock::now();
        children.adopt(std::move(late));
        until([this] { return !keeper.is_looking(); });
    }
    [[nodiscard]] bool is_judging() const { return helper(judge_key) != 0; }
};

TEST_F(ConfigurationKeeperTest, WatchesTheFile) {
    begin(good);
    EXPECT_EQ(keeper.ledger().changes(), 1);
    EXPECT_TRUE(keeper.ledger().accepted_at());
    write(options.configuration_path, better);
    until([this] { return !told.empty(); });
    EXPECT_THAT(told, ElementsAre("accepted 2"));
    EXPECT_TRUE(keeper.take_news());
    EXPECT_FALSE(keeper.take_news());
    EXPECT_EQ(keeper.ledger().state().text, better);
}

TEST_F(ConfigurationKeeperTest, ABadOneNeverReplacesAGoodOne) {
    begin(good);
    std::uint64_t const sequence = keeper.ledger().state().sequence;
    write(options.configuration_path, "{");
    until([this] { return !keeper.ledger().rejection().empty(); });
    EXPECT_EQ(keeper.ledger().state().text, good);
    EXPECT_EQ(keeper.ledger().state().sequence, sequence + 1);
    EXPECT_THAT(logged(),
                HasSubstr("configuration " + options.configuration_path + " rejected; the running one stays:"));
    write(options.configuration_path, good);
    until([this] { return keeper.ledger().rejection().empty(); });
    EXPECT_EQ(keeper.ledger().changes(), 1) << "it is the one that has been running";
    EXPECT_THAT(told, testing::Not(testing::Contains("accepted 1")));
}

TEST_F(ConfigurationKeeperTest, TheSameRejectionIsToldOnce) {
    begin("{");
    std::string const once = logged();
    EXPECT_THAT(once, HasSubstr(" rejected:"));
    std::uint64_t const sequence = keeper.ledger().state().sequence;
    look();
    EXPECT_EQ(logged(), once);
    EXPECT_EQ(keeper.ledger().state().sequence, sequence);
    EXPECT_FALSE(keeper.ledger().accepted_at());
}

/// Whoever compares documents wants to see the new text; nothing else happens for it.
TEST_F(ConfigurationKeeperTest, TheSameInOtherWordsIsTheSame) {
    begin(good);
    std::string const spaced = std::string(good) + "\n";
    write(options.configuration_path, spaced);
    until([&] { return keeper.ledger().state().text == spaced; });
    EXPECT_EQ(keeper.ledger().changes(), 2);
    EXPECT_FALSE(keeper.take_news());
    EXPECT_THAT(told, testing::Not(testing::Contains("accepted 1")));
}

TEST_F(ConfigurationKeeperTest, WantOfMemoryIsAReasonLikeAnother) {
    begin(good);
    has_no_memory = true;
    write(options.configuration_path, better);
    look();
    EXPECT_THAT(keeper.ledger().rejection(), ElementsAre("not enough memory for its processes"));
    EXPECT_EQ(keeper.ledger().state().text, good);
    has_no_memory = false;
    look();
    EXPECT_THAT(keeper.ledger().rejection(), IsEmpty());
    EXPECT_EQ(keeper.ledger().state().text, better);
}

/// A file of variables may be what makes it good.
TEST_F(ConfigurationKeeperTest, WhatCannotBecomeActiveHasItsFilesWatchedAllTheSame) {
    std::string const variables = directory + "/variables";
    write(variables, "odd\n");
    write(options.configuration_path, R"({"programs":{"a":{"command":["/bin/true"],"environmentFile":")" + variables +
                                          R"(","output":{"file":")" + directory + R"(/logs/a"}}}})");
    keeper.tell(keeper.look_first());
    ASSERT_THAT(keeper.ledger().rejection(), ElementsAre(HasSubstr("cannot open " + directory + "/logs")));
    EXPECT_THAT(logged(), HasSubstr(variables + ": line 1: is not of the form NAME=value"));
    look();
    look();
    std::filesystem::create_directory(directory + "/logs");
    write(variables, "GOOD=1\n");
    until([this] { return keeper.active() != nullptr; });
    EXPECT_THAT(keeper.ledger().rejection(), IsEmpty());
}

TEST_F(ConfigurationKeeperTest, AMissingFileIsAwaited) {
    keeper.tell(keeper.look_first());
    EXPECT_THAT(keeper.ledger().rejection(),
                ElementsAre("cannot open " + options.configuration_path + ": No such file or directory"));
    look();
    write(options.configuration_path, good);
    until([this] { return keeper.active() != nullptr; });
    EXPECT_THAT(told, testing::Contains("accepted 1"));
}

/// It may be isolated: nothing starts before that is known, or the wait is over.
TEST_F(ConfigurationKeeperTest, WaitsForWhatTheAgentTellsOfThePod) {
    options.agent.is_reporting = true;
    options.wait_for_pod = std::chrono::hours(1);
    write(options.configuration_path, good);
    ConfigurationKeeper::FirstLook first = keeper.look_first();
    EXPECT_TRUE(first.rejected);
    EXPECT_TRUE(first.may_be_good);
    keeper.tell(std::move(first));
    EXPECT_THAT(logged(), HasSubstr("waiting for the annotations of the pod"));
    keeper.begin_to_watch();
    look();
    EXPECT_EQ(keeper.active(), nullptr);
    agent.set_pod({});
    until([this] { return keeper.active() != nullptr; });
    EXPECT_THAT(told, testing::Contains("accepted 1"));
}

TEST_F(ConfigurationKeeperTest, AStopForgetsTheFiles) {
    begin(good);
    keeper.forget_files();
    write(options.configuration_path, better);
    write(directory + "/other", "");
    // Another watch of the same directory has seen both changes by then.
    auto other = PathWatcher::create();
    ASSERT_TRUE(other);
    ASSERT_TRUE(other->watch({directory + "/third"}));
    auto const watch = loop->on_readable(other->fd(), [&] { (void)other->take_events(), told.emplace_back("seen"); });
    ASSERT_TRUE(watch);
    write(directory + "/third", "");
    until([this] { return !told.empty(); });
    EXPECT_EQ(keeper.ledger().state().text, good);
}

TEST_F(ConfigurationKeeperTest, GoesOnFromWhatWasActiveBeforeAnUpgrade) {
    UpgradeState state;
    state.has_configuration = true;
    state.configuration = good;
    state.configuration_changes = 7;
    state.configuration_time = 1234;
    keeper.restore(state);
    ASSERT_NE(keeper.active(), nullptr);
    EXPECT_EQ(keeper.ledger().changes(), 7);
    EXPECT_EQ(keeper.ledger().accepted_at(), 1234);
    EXPECT_THAT(told, IsEmpty());
    UpgradeState again;
    keeper.save(again);
    EXPECT_EQ(again.configuration, good);
    EXPECT_EQ(again.configuration_changes, 7);
}

// A file system may hang: a copy goes first.

TEST_F(ConfigurationKeeperTest, NothingIsReadBeforeTheCopyIsBack) {
    begin(good);
    sys.calls.clear();
    scouts_return = false;
    write(options.configuration_path, better);
    until([this] { return helper(scout_key) != 0 && keeper.is_looking(); });
    EXPECT_TRUE(keeper.is_looking());
    EXPECT_EQ(keeper.ledger().state().text, good);
    write(options.configuration_path, "{");
    keeper.look_again();  // somebody else asks meanwhile
    EXPECT_EQ(std::ranges::count(sys.calls, "copy"), 1);
    scouts_return = true;
    until([this] { return !keeper.ledger().rejection().empty() && !keeper.is_looking(); });
    EXPECT_EQ(std::ranges::count(sys.calls, "copy"), 3) << "one has been overtaken, and somebody has asked meanwhile";
}

/// It may name a file that hangs, and PID 1 would be the first to open it.
TEST_F(ConfigurationKeeperTest, WhatTheCopyHasNotReadIsNotFollowed) {
    std::string const further = directory + "/further.json";
    write(further, good);
    std::vector<std::string> const documents{R"({"include":[")" + further + R"("]})", R"({"include":["f*.json"]})",
                                             better};
    for (std::string const& document : documents) {
        begin(R"({"programs":{"z":{"command":["/bin/true"]}}})");
        std::uint64_t const changes = keeper.ledger().changes();
        scouts_return = false;
        write(options.configuration_path, R"({"programs":{"y":{"command":["/bin/true"]}}})");
        until([this] { return helper(scout_key) != 0 && keeper.is_looking(); });
        write(options.configuration_path, document);
        end(helper(scout_key));
        EXPECT_NE(helper(scout_key), 0) << "another copy goes first: " << document;
        EXPECT_EQ(keeper.ledger().changes(), changes);
        scouts_return = true;
        until([&] { return keeper.ledger().changes() != changes && !keeper.is_looking(); });
        EXPECT_THAT(keeper.ledger().rejection(), IsEmpty());
    }
}

/// What the error says of it is made clearer behind the copy.
TEST_F(ConfigurationKeeperTest, ADirectoryThatIsGoneIsARejection) {
    std::string const place = directory + "/place";
    std::filesystem::create_directory(place);
    options.configuration_path = place + "/config.json";
    begin(good);
    std::filesystem::remove_all(place);
    until([this] { return !keeper.ledger().rejection().empty() && !keeper.is_looking(); });
    EXPECT_THAT(keeper.ledger().rejection(), ElementsAre(HasSubstr(place + " does not exist")));
}

/// Who changes it all the time keeps PID 1 from it, but not from its other work.
TEST_F(ConfigurationKeeperTest, CopiesThatAreOvertakenHaveARest) {
    begin(good);
    sys.calls.clear();
    scouts_return = false;
    write(options.configuration_path, better);
    until([this] { return helper(scout_key) != 0 && keeper.is_looking(); });
    for (int i = 0; i < 20 && helper(scout_key) != 0; ++i) {
        write(options.configuration_path, i % 2 == 0 ? good : better);
        end(helper(scout_key));
    }
    EXPECT_EQ(helper(scout_key), 0);
    EXPECT_TRUE(keeper.is_looking()) << "it goes on by itself";
    EXPECT_EQ(std::ranges::count(sys.calls, "copy"), 4);
    write(options.configuration_path, better);
    scouts_return = true;
    until([this] { return keeper.ledger().state().text == better && !keeper.is_looking(); });
}

TEST_F(ConfigurationKeeperTest, AFileSystemThatDoesNotAnswerIsAReasonLikeAnother) {
    begin(good);
    scouts_return = false;
    write(options.configuration_path, better);
    until([this] { return helper(scout_key) != 0 && keeper.is_looking(); });
    pid_t const hanging = helper(scout_key);
    be_late();
    EXPECT_THAT(keeper.ledger().rejection(),
                ElementsAre("looking at it takes longer than 10s: a file system does not answer"));
    EXPECT_EQ(keeper.ledger().state().text, good);
    EXPECT_THAT(sys.calls, testing::Contains("kill " + std::to_string(-hanging) + " 9"));
    keeper.look_again();
    EXPECT_FALSE(keeper.is_looking()) << "it was killed in vain, and nothing is new: no second one may hang there";
    EXPECT_THAT(keeper.ledger().rejection(), testing::SizeIs(1));
    scouts_return = true;
    keeper.reload();
    until([this] { return keeper.ledger().state().text == better; });
    EXPECT_EQ(keeper.ledger().state().text, better) << "although it still hangs";
}

/// Each configuration may name another path that hangs.
TEST_F(ConfigurationKeeperTest, OnlySoManyCopiesMayHang) {
    begin(good);
    scouts_return = false;
    for (std::size_t count = 0; count < FileScout::most_held; ++count) {
        keeper.reload();
        ASSERT_NE(helper(scout_key), 0) << count;
        be_late();
    }
    auto const copies = std::ranges::count(sys.calls, "copy");
    keeper.reload();
    EXPECT_FALSE(keeper.is_looking());
    EXPECT_EQ(std::ranges::count(sys.calls, "copy"), copies);
    EXPECT_THAT(keeper.ledger().rejection(), testing::SizeIs(1));
}

/// It goes while more changes may come, so that nobody waits for it.
TEST_F(ConfigurationKeeperTest, TheCopyGoesWithTheFirstOfABurst) {
    begin(good);
    sys.calls.clear();
    write(options.configuration_path, better);
    until([this] { return std::ranges::count(sys.calls, "copy") > 0; });
    EXPECT_EQ(helper(scout_key), 0) << "it is back";
    EXPECT_FALSE(keeper.is_looking());
    EXPECT_EQ(keeper.ledger().state().text, good);
    until([this] { return keeper.ledger().state().text == better; });
    EXPECT_EQ(std::ranges::count(sys.calls, "copy"), 1);
}

/// Otherwise nothing could be changed any more where there are too many processes.
TEST_F(ConfigurationKeeperTest, WithoutACopyNobodyGoesFirst) {
    begin(good);
    sys.copy_error = EAGAIN;
    write(options.configuration_path, better);
    look();
    EXPECT_EQ(keeper.ledger().state().text, better);
}

/// An upgrade that is refused has killed the copy a moment ago.
TEST_F(ConfigurationKeeperTest, TheNextCopyDoesNotWaitForTheEndOfTheOneBeforeIt) {
    begin(good);
    scouts_return = false;
    write(options.configuration_path, better);
    until([this] { return helper(scout_key) != 0 && keeper.is_looking(); });
    keeper.stop_looking();
    EXPECT_FALSE(keeper.is_looking());
    keeper.go_on_looking();
    EXPECT_TRUE(keeper.is_looking());
    EXPECT_THAT(keeper.ledger().rejection(), IsEmpty());
    scouts_return = true;
    until([this] { return keeper.ledger().state().text == better; });
}

TEST_F(ConfigurationKeeperTest, TheCopyLeavesNothingBehind) {
    begin(good);
    write(options.configuration_path, R"({"include":["*.part"],"programs":{"z":{"command":["/bin/true"]}}})");
    write(directory + "/a.part", R"({"programs":{"a":{"command":["/bin/true"]}}})");
    look();
    EXPECT_EQ(keeper.ledger().changes(), 2);
    write(directory + "/b.part", R"({"programs":{"b":{"command":["/bin/true"]}}})");
    until([this] { return keeper.ledger().changes() == 3; });
}

// A configuration that takes long is judged by a helper.

/// More text than the launcher looks at by itself.
std::string large(std::string const& document) { return document + std::string(20000, ' '); }

TEST_F(ConfigurationKeeperTest, AHelperJudgesWhatTakesLong) {
    begin(good);
    write(options.configuration_path, large(better));
    until([this] { return is_judging(); });
    EXPECT_THAT(told, testing::Not(testing::Contains("accepted 2"))) << "before the verdict";
    end(sys.next_copy - 1);
    EXPECT_FALSE(is_judging());
    EXPECT_THAT(told, testing::Contains("accepted 2"));
}

TEST_F(ConfigurationKeeperTest, WhateverBecomesOfAHelperIsAVerdict) {
    struct Row {
        int status;
        char const* reason;
    };
    begin(good);
    for (Row const& row : {Row{SIGXCPU, "checking it takes more than 5s of the processor's time"},
                           Row{SIGSEGV, "checking it was ended by SIGSEGV"},
                           Row{1 << 8, "checking it needs more than 128 MiB of memory"},
                           Row{0, "cannot read the verdict of the helper: it is not one"}}) {
        sys.copies_hang = true;
        write(options.configuration_path, large(better) + std::string(static_cast<std::size_t>(row.status), ' '));
        until([this] { return is_judging(); });
        end(sys.next_copy - 1, row.status);
        EXPECT_THAT(keeper.ledger().rejection(), ElementsAre(row.reason));
        EXPECT_EQ(keeper.outcome().error().details, keeper.ledger().rejection());
        EXPECT_EQ(keeper.ledger().state().text, good);
    }
    sys.copy_error = EAGAIN;
    write(options.configuration_path, large(better));
    until([this] { return sys.copies_refused > 0; });
    EXPECT_THAT(keeper.ledger().rejection(), ElementsAre("cannot read the verdict of the helper: it is not one"))
        << "that no helper can be started is not a fault of the configuration";
    sys.copy_error = 0;
    sys.copies_hang = false;
    until([this] { return is_judging(); });  // it is tried again by itself
    end(sys.next_copy - 1);
    EXPECT_EQ(keeper.ledger().state().text, large(better));
}

/// What was judged with other labels of the node may cost anything with these.
TEST_F(ConfigurationKeeperTest, AVerdictIsNotFollowedWithOtherLabels) {
    begin(good);
    write(options.configuration_path, large(better));
    until([this] { return is_judging(); });
    keeper.know_node({{"NODE_LABEL_ZONE", "b"}}, true);
    end(sys.next_copy - 1);
    EXPECT_EQ(keeper.ledger().state().text, good);
    until([this] { return is_judging(); });
    end(sys.next_copy - 1);
    EXPECT_EQ(keeper.ledger().state().text, large(better));
}

TEST_F(ConfigurationKeeperTest, AChangeWhileAHelperRunsIsLookedAtAfterwards) {
    begin(good);
    write(options.configuration_path, large(better));
    until([this] { return is_judging(); });
    write(options.configuration_path, good);
    look();
    EXPECT_TRUE(is_judging());
    end(sys.next_copy - 1);
    EXPECT_EQ(keeper.ledger().state().text, large(better));
    until([this] { return keeper.ledger().state().text == good; });
}

TEST_F(ConfigurationKeeperTest, AStopEndsTheHelper) {
    begin(good);
    sys.copies_hang = true;
    write(options.configuration_path, large(better));
    until([this] { return is_judging(); });
    keeper.forget_files();
    EXPECT_FALSE(is_judging());
    EXPECT_THAT(sys.calls, testing::Contains("kill " + std::to_string(-(sys.next_copy - 1)) + " 9"));
}

TEST_F(ConfigurationKeeperTest, AnUpgradeThatIsRefusedGoesOnWithWhatItStopped) {
    begin(good);
    sys.copies_hang = true;
    write(options.configuration_path, large(better));
    until([this] { return is_judging(); });
    pid_t const first = sys.next_copy - 1;
    keeper.stop_looking();
    EXPECT_FALSE(is_judging());
    end(first, SIGKILL);
    sys.copies_hang = false;
    keeper.go_on_looking();
    until([this] { return is_judging(); });
    end(sys.next_copy - 1);
    EXPECT_EQ(keeper.ledger().state().text, large(better));
}

/// The first look leaves it to a later one, so that signals are heard meanwhile.
TEST_F(ConfigurationKeeperTest, AFirstConfigurationThatTakesLongIsDeferred) {
    options.exit_on_bad_configuration = true;
    write(options.configuration_path, "{" + std::string(300'000, ' '));
    auto const first = keeper.look_first();
    EXPECT_TRUE(first.rejected);
    EXPECT_TRUE(first.may_be_good);
    keeper.tell(first);
    EXPECT_THAT(logged(), testing::Not(HasSubstr("rejected")));
    keeper.begin_to_watch();
    until([this] { return is_judging(); });
    end(sys.next_copy - 1);
    EXPECT_THAT(logged(), HasSubstr("rejected:"));
    EXPECT_THAT(told, testing::Contains("stop asked, 1"));
}

/// A thousand programs: nothing runs yet that a long load could hold up.
TEST_F(ConfigurationKeeperTest, AFirstConfigurationHasMoreTimeAndIsLoadedOnce) {
    begin(large(good));
    EXPECT_FALSE(is_judging());
    EXPECT_EQ(keeper.ledger().changes(), 1);
    write(options.configuration_path, large(better));
    until([this] { return is_judging(); });
}

TEST_F(ConfigurationKeeperTest, AChangeBeforeTheWatchBeginsIsSeen) {
    write(options.configuration_path, good);
    keeper.tell(keeper.look_first());
    write(options.configuration_path, better);
    told.clear();
    look();
    EXPECT_THAT(told, testing::Contains("accepted 2"));
}

TEST_F(ConfigurationKeeperTest, LabelsOfTheNodeThatComeBeforeTheWatchBeginsCount) {
    write(options.configuration_path, R"({"programs":{"a":{"command":["/bin/echo",
        {"type":"Environment","source":"NODE_LABEL_ZONE"}]}}})");
    source.variables = {{"NODE_LABEL_ZONE", "one"}};
    keeper.tell(keeper.look_first());
    keeper.know_node({{"NODE_LABEL_ZONE", "two"}}, true);
    look();
    EXPECT_EQ(keeper.ledger().changes(), 2);
}

TEST_F(ConfigurationKeeperTest, AFileOfVariablesThatChangesBeforeTheWatchBeginsIsSeen) {
    std::string const variables = options.configuration_path + ".env";
    write(variables, "A=1\n");
    write(options.configuration_path,
          R"({"programs":{"a":{"command":["/bin/true"],"environmentFile":")" + variables + R"("}}})");
    keeper.tell(keeper.look_first());
    write(variables, "A=2\n");
    told.clear();
    look();
    EXPECT_EQ(keeper.ledger().changes(), 2);
}

TEST_F(ConfigurationKeeperTest, WhoAsksBeforeTheWatchBeginsIsToldThatNothingHasChanged) {
    write(options.configuration_path, good);
    keeper.tell(keeper.look_first());
    keeper.reload();
    scout_returns();
    EXPECT_THAT(logged(), HasSubstr(" is unchanged"));
    EXPECT_EQ(keeper.ledger().changes(), 1);
}

}  // namespace

}  // namespace triton::launcher
