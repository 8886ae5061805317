// Becoming another version: asked first, then executed, and given up without a trace.

#include "launcher/rooms/upgrader.h"

#include <csignal>

#include <gmock/gmock.h>

#include "launcher/upgrade/compiled_filters.h"
#include "tests/unit/launcher/rooms/rooms_subject.h"

namespace triton::launcher {

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class UpgraderTest : public RoomsSubject {
protected:
    void SetUp() override {
        write(directory + "/new", "");
        sys.on_execute = [this](char const* path, char const* const*, char const* const* entries) {
            for (char const* const* entry = entries; *entry; ++entry) {
                std::string_view const text(*entry);
                if (text.starts_with(upgrade_variable)) state_fd = std::atoi(*entry + text.find('=') + 1);
            }
            executed.push_back(std::filesystem::read_symlink(path));  // by descriptor: the name may be another's by now
            is_inherited = ::fcntl(state_fd, F_GETFD) == 0 && (!handed || ::fcntl(handed.get(), F_GETFD) == 0);
            auto const read = read_sealed(state_fd);
            state_text = read ? *read : read.error().text();
            return ENOEXEC;
        };
    }
    UpgradeState state() override {
        UpgradeState state = RoomsSubject::state();
        if (handed) state.notify.pipes.push_back({{0, 1}, handed.get()});
        state.history.ends = ends;
        state.marks = marks;
        if (watch) state.files_watch = state.configuration_watch = PathWatcher::Handed{watch.get(), {1, 2}};
        return state;
    }
    /// The new version says this, and ends so.
    void answer(std::string const& text, int status = 0) {
        sys.on_spawn = [this, text, status](pid_t pid) {
            EXPECT_EQ(::write(sys.last_files.out, text.data(), text.size()), static_cast<ssize_t>(text.size()));
            sys.end(pid, status);
        };
    }
    /// The descriptor that the check was told of; -1: none.
    [[nodiscard]] int told_filters() const {
        for (std::string_view const entry : sys.last_plan->environment(ProcessNumber{1}).entries()) {
            if (entry.starts_with(filters_variable)) return std::atoi(entry.data() + entry.find('=') + 1);
        }
        return -1;
    }
    void upgrade() {
        ASSERT_TRUE(upgrader.begin(directory + "/new"));
        children.reap();
    }
    [[nodiscard]] std::string failure() {
        std::string const text = logged();
        std::size_t const begin = text.find("upgrade failed: ");
        return begin == text.npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
    }

    std::vector<std::string> executed;
    UniqueFd handed;  // what is to be handed over beside the state
    UniqueFd watch;
    std::vector<EndRecord> ends;
    std::vector<std::uint64_t> marks;
    int state_fd = -1;
    bool is_inherited = false;
    std::string state_text;
};

TEST_F(UpgraderTest, ExecutesWhatCanTakeOver) {
    answer("fit to take over: 2.0\n");
    upgrade();
    until([this] { return !executed.empty(); });
    EXPECT_THAT(executed, ElementsAre(directory + "/new"));
    EXPECT_TRUE(is_inherited) << "the state stays open";
    EXPECT_THAT(state_text, HasSubstr(R"("version":"1.0")"));
    EXPECT_THAT(told, ElementsAre("output stopped", "about to leave", "output resumed"));
    EXPECT_THAT(failure(), HasSubstr("upgrade failed: cannot execute " + directory + "/new: Exec format error"));
    answer("fit to take over: 2.0\n");
    upgrade();
    until([this] { return executed.size() == 2; });
}

/// A child that is started after a refused execve(2) must not have what the next version was to have.
TEST_F(UpgraderTest, WhatWasToBeHandedOverIsClosedOnExecAgain) {
    handed = UniqueFd{::memfd_create("handed", MFD_CLOEXEC)};
    answer("fit to take over: 2.0\n");
    upgrade();
    until([this] { return !executed.empty(); });
    EXPECT_TRUE(is_inherited);
    EXPECT_EQ(::fcntl(handed.get(), F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(::fcntl(state_fd, F_GETFD), -1) << "the state was closed";
}

TEST_F(UpgraderTest, WhatTheCheckHasCompiledGoesOnToTheSameVersion) {
    answer("fit to take over: 2.0\n");
    int filters = -1;
    sys.on_spawn = [&, say = sys.on_spawn](pid_t pid) {
        filters = told_filters();
        EXPECT_EQ(::fcntl(filters, F_GETFD), 0) << "the check inherits it";
        EXPECT_EQ(::write(filters, "compiled", 8), 8);
        say(pid);
    };
    auto const execute = sys.on_execute;
    std::string left;
    sys.on_execute = [&](char const* path, char const* const* words, char const* const* entries) {
        EXPECT_EQ(::fcntl(filters, F_GETFD), 0) << "so does the version";
        auto const read = read_sealed(filters);
        left = read ? *read : read.error().text();
        return execute(path, words, entries);
    };
    upgrade();
    EXPECT_EQ(::fcntl(filters, F_GETFD), FD_CLOEXEC) << "nobody else does";
    until([this] { return !executed.empty(); });
    EXPECT_EQ(left, "compiled");
    EXPECT_THAT(state_text, HasSubstr("\"filters\":" + std::to_string(filters)));
    EXPECT_EQ(::fcntl(filters, F_GETFD), -1) << "it is closed when nobody is executed";
}

/// It would not know what it is to be told of.
TEST_F(UpgraderTest, AnOlderVersionThatLeavesNothingIsToldOfNothing) {
    answer("fit to take over: 2.0\n");
    upgrade();
    until([this] { return !executed.empty(); });
    EXPECT_THAT(state_text, Not(HasSubstr("filters")));
}

TEST_F(UpgraderTest, WatchesGoOnInAVersionThatTakesThem) {
    watch = UniqueFd{::memfd_create("watch", MFD_CLOEXEC)};
    for (bool const takes : {false, true}) {
        bool is_left_open = false;
        sys.on_execute = [&, execute = sys.on_execute](auto... arguments) {
            is_left_open = ::fcntl(watch.get(), F_GETFD) == 0;
            return execute(arguments...);
        };
        answer(takes ? "fit to take over: 2.0\ntakes watches\n" : "fit to take over: 2.0\n");
        upgrade();
        until([&] { return executed.size() == (takes ? 2 : 1); });
        EXPECT_EQ(is_left_open, takes);
        EXPECT_EQ(state_text.find("_watch\":{") != state_text.npos, takes) << state_text;
    }
}

TEST_F(UpgraderTest, MarksGoOnInAVersionThatTakesThem) {
    marks = {7};
    for (bool const takes : {false, true}) {
        answer(takes ? "fit to take over: 2.0\ntakes marks\n" : "fit to take over: 2.0\n");
        upgrade();
        until([&] { return executed.size() == (takes ? 2 : 1); });
        EXPECT_EQ(state_text.find("\"marks\":[7]") != state_text.npos, takes) << state_text;
    }
}

/// An older version would refuse what it does not know, and it is not worth that.
TEST_F(UpgraderTest, PastEndsGoOnInAVersionThatTakesThem) {
    ends = {{.program = 0, .number = 1, .sequence = 1, .time = 2}};
    for (bool const takes : {false, true}) {
        answer(takes ? "fit to take over: 2.0\ntakes history\n" : "fit to take over: 2.0\n");
        upgrade();
        until([&] { return executed.size() == (takes ? 2 : 1); });
        EXPECT_EQ(state_text.find("\"ends\":[") != state_text.npos, takes) << state_text;
    }
}

TEST_F(UpgraderTest, TheCheckSaysThatThisVersionTakesWatches) {
    UpgradeCheck const checked = check_upgrade(write_upgrade_state({}), options, environment);
    EXPECT_THAT(checked.output, testing::StartsWith("fit to take over: "));
    EXPECT_THAT(checked.output, testing::EndsWith("\ntakes watches\ntakes history\ntakes marks\n"));
}

TEST_F(UpgraderTest, TheCheckLeavesWhatItHasCompiled) {
    UpgradeState state;
    state.has_configuration = true;
    state.configuration = R"({"programs":{"a":{"command":["/bin/true"],"seccomp":{"deny":["mount"]}}}})";
    UpgradeCheck const checked = check_upgrade(write_upgrade_state(state), options, environment);
    EXPECT_EQ(checked.exit_code, 0) << checked.output;
    EXPECT_THAT(read_compiled_filters(checked.filters, *own_compiler()), testing::SizeIs(1));
}

TEST_F(UpgraderTest, WhoCallsItselfFitAndFailsIsNot) {
    for (int const status : {1 << 8, SIGKILL}) {
        answer("fit to take over: 2.0\n", status);
        upgrade();
        EXPECT_THAT(failure(), HasSubstr("upgrade failed: " + directory + "/new cannot take over"));
        ASSERT_EQ(::ftruncate(log_file.get(), 0), 0);
    }
    EXPECT_THAT(executed, IsEmpty());
}

TEST_F(UpgraderTest, GivesUpNothingForAVersionThatCannot) {
    answer("would be lost: programs[0].pets\n", 1 << 8);
    upgrade();
    EXPECT_THAT(failure(), HasSubstr("upgrade failed: " + directory + "/new cannot take over"));
    EXPECT_THAT(logged(), HasSubstr("would be lost: programs[0].pets"));
    EXPECT_THAT(executed, IsEmpty());
    EXPECT_THAT(told, IsEmpty());
}

TEST_F(UpgraderTest, AProgramThatSaysNothingIsNotALauncher) {
    answer("");
    upgrade();
    EXPECT_THAT(failure(),
                HasSubstr(directory + "/new cannot take over: it is not a launcher that can be upgraded to"));
}

TEST_F(UpgraderTest, ACloneThatFailsIsTheReason) {
    sys.spawn_errors = {EAGAIN};
    upgrade();
    EXPECT_THAT(failure(), HasSubstr("Resource temporarily unavailable"));
    EXPECT_THAT(executed, IsEmpty());
}

TEST_F(UpgraderTest, OneAtATime) {
    ASSERT_TRUE(upgrader.begin(directory + "/new"));
    Result<> const second = upgrader.begin(directory + "/new");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().text(), "an upgrade is under way");
    EXPECT_EQ(second.error().kind, ErrorKind::refused);
}

TEST_F(UpgraderTest, AStopComesFirst) {
    ASSERT_TRUE(activate(R"({"programs":{"a":{"command":["/bin/a"]}}})"));
    start();
    sys.on_spawn = [this](pid_t pid) {
        dispatch(event::StopAsked{});
        sys.end(pid, 0);
    };
    upgrade();
    EXPECT_THAT(failure(), HasSubstr("upgrade failed: the launcher is stopping"));
    Result<> const later = upgrader.begin(directory + "/new");
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().text(), "the launcher is stopping");
}

/// Lines that wait here would be lost: the reader of our standard output is waited for.
TEST_F(UpgraderTest, WaitsForAReaderOfAFullPipe) {
    console.out().append(std::string(200'000, 'x') + "\n");
    console.flush();
    ASSERT_TRUE(console.is_blocked());
    console.attach(*loop, [] {});
    answer("fit to take over: 2.0\n");
    upgrade();
    int rounds = 0;
    until([&] { return ++rounds == 5; });
    EXPECT_THAT(executed, IsEmpty());
    std::string drained(1 << 20, '\0');
    auto const watch = loop->on_readable(console_reader.get(),
                                         [&] { (void)!::read(console_reader.get(), drained.data(), drained.size()); });
    ASSERT_TRUE(watch);
    until([this] { return !executed.empty(); });
    EXPECT_FALSE(console.has_pending());
}

TEST_F(UpgraderTest, WaitsForWhatOnlyThisVersionCanRun) {
    yet_to_clean_up = "mount";
    answer("fit to take over: 2.0\n");
    upgrade();
    int rounds = 0;
    until([&] { return ++rounds == 5; });
    EXPECT_THAT(executed, IsEmpty());
    yet_to_clean_up.clear();
    until([this] { return !executed.empty(); });
}

}  // namespace

}  // namespace triton::launcher
