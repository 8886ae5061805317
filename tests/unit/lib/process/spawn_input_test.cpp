// A file as a standard input, which the child opens: whoever does so may wait for ever.

#include <array>
#include <fstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "tests/unit/lib/process/spawn_subject.h"

namespace triton::launcher::test {

namespace {

/// In both ways: the child shares our memory, or has a copy.
class SpawnInputTest : public testing::TestWithParam<bool> {
protected:
    SpawnInputTest() { close_on_exec_for_all(); }

    [[nodiscard]] std::string path(std::string const& name) const { return directory_.path() + "/" + name; }
    void write(std::string const& name, std::string const& text) const { std::ofstream(path(name)) << text; }

    /// Runs a script with this file as its standard input.
    static Outcome run_with(std::string const& file, std::string const& script, process::Attributes attributes = {},
                            process::StartFiles files = {}) {
        process::CommandTemplate const input = literals({file});
        files.input = &input;
        return run_shell(script, in_this_way(std::move(attributes)), files);
    }
    /// Makes one system call with this file as its standard input, and gives its result back: see call.
    static Outcome call_with(std::string const& file, std::vector<std::string> const& call,
                             process::Attributes attributes = {}) {
        process::CommandTemplate const input = literals({file});
        std::string const program = attributes.root_directory.empty() ? CALL_PROGRAM : "/call";
        return run(plan_of(program, call, in_this_way(std::move(attributes))), {.input = &input});
    }
    static std::string failure_with(std::string const& file, process::Attributes attributes = {}) {
        Outcome const outcome = run_with(file, "true", std::move(attributes));
        if (!outcome.error) return "no failure, status " + std::to_string(outcome.status);
        return process::stage_text(outcome.error->stage) + ": " + errno_text(outcome.error->code);
    }
    static process::Attributes in_this_way(process::Attributes attributes) {
        if (GetParam()) attributes.oom_score_adj = 500;
        return attributes;
    }

private:
    Directory directory_;
};

TEST_P(SpawnInputTest, IsReadFromItsBeginning) {
    write("in", "line\n");
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(run_with(path("in"), "read a; echo $a").output, "line\n");
    EXPECT_EQ(run_with("/dev/null", "cat; echo end").output, "end\n");
}

TEST_P(SpawnInputTest, MayBeAnotherOneForEachProcess) {
    for (char const* const number : {"1", "22"}) {
        write(number, number);
        ASSERT_EQ(::mkdir((path(number) + ".d").c_str(), 0755), 0);
    }
    auto const numbered = [&](std::string const& end) {
        return config::numbered_path(
            {.type = config::ArgumentType::concatenate,
             .values = {{.value = path("")},
                        {.type = config::ArgumentType::process_number, .multiplier = 21, .offset = -20},
                        {.value = end}}});
    };
    auto const plan = std::make_shared<process::StartPlan const>(
        "/bin/sh", std::vector<std::string>{"PATH=/usr/bin:/bin"}, literals({"-c", "cat; pwd"}),
        process::NumberedParts{.environment = {literals({"A=1"})}, .directory = numbered(".d")},
        in_this_way({.working_directory = path("1.d")}));
    process::CommandTemplate const input = numbered("");
    process::Spawner spawner({}, 0);
    for (unsigned const number : {1, 2}) {
        std::string const name = number == 1 ? "1" : "22";
        EXPECT_EQ(run(spawner, plan, {.input = &input}, process::ProcessNumber{number}).output,
                  name + path(name) + ".d\n");
    }
}

TEST_P(SpawnInputTest, BlocksAndLeavesNoOtherDescriptor) {
    write("in", "");
    Outcome const asked = call_with(path("in"), {std::to_string(SYS_fcntl), "0", std::to_string(F_GETFL)});
    ASSERT_TRUE(asked.is_ok());
    EXPECT_EQ(std::stoi(asked.output) & (O_NONBLOCK | O_ACCMODE), 0) << asked.output;
    EXPECT_EQ(run_with(path("in"), "ls /proc/self/fd").output, "0\n1\n2\n3\n");  // ls has one open on the directory
}

TEST_P(SpawnInputTest, StandsBesideOtherDescriptors) {
    write("in", "input");
    write("other", "other");
    UniqueFd const other{::open(path("other").c_str(), O_RDONLY | O_CLOEXEC)};
    std::array const listen{other.get()};
    process::Attributes attributes;
    attributes.listen_names = {"a"};
    EXPECT_EQ(run_with(path("in"), "cat; cat <&3; ls /proc/self/fd", std::move(attributes), {.listen = listen}).output,
              "inputother0\n1\n2\n3\n4\n");
}

/// As it does where we open it: what is closed or replaced for the program is still there.
TEST_P(SpawnInputTest, ADescriptorInItsPathIsOurs) {
    write("in", "ours");
    UniqueFd const ours{::open(path("in").c_str(), O_RDONLY | O_CLOEXEC)};
    EXPECT_EQ(run_with("/proc/self/fd/" + std::to_string(ours.get()), "cat").output, "ours");
}

TEST_P(SpawnInputTest, ALowLimitDoesNotHinderIt) {
    write("in", "passed");
    EXPECT_EQ(
        call_with(path("in"), {std::to_string(SYS_read), "0", "@16", "16"}, {.limits = {{RLIMIT_NOFILE, 3, 3}}}).output,
        "6\npassed");
}

TEST_P(SpawnInputTest, IsOpenedWithOurRights) {
    SKIP_UNLESS_ROOT();
    write("in", "secret");
    ASSERT_EQ(::chmod(path("in").c_str(), 0600), 0);
    EXPECT_EQ(run_with(path("in"), "cat; id -u", {.identity = {.user = 65534, .group = 65534}}).output,
              "secret65534\n");
}

TEST_P(SpawnInputTest, NothingLeadsOutOfTheRootDirectory) {
    SKIP_UNLESS_ROOT();
    ASSERT_EQ(::mkdir(path("root").c_str(), 0755), 0);
    ASSERT_EQ(std::system(("cp '" CALL_PROGRAM "' " + path("root/call")).c_str()), 0);
    write("in", "outside");
    write("root/in", "inside");
    ASSERT_EQ(::symlink("/in", path("root/link").c_str()), 0);
    ASSERT_EQ(::symlink(path("in").c_str(), path("root/out").c_str()), 0);
    process::Attributes const inside{.root_directory = path("root")};
    for (char const* const file : {"/in", "/../in", "/link"})
        EXPECT_EQ(call_with(file, {std::to_string(SYS_read), "0", "@16", "16"}, inside).output, "6\ninside") << file;
    EXPECT_EQ(failure_with("/out", inside), "open the file of its stdin: No such file or directory");
    EXPECT_EQ(failure_with("/in", {.root_directory = path("none")}),
              "open the file of its stdin: No such file or directory");
}

TEST_P(SpawnInputTest, WhatCannotBeReadSaysWhy) {
    EXPECT_EQ(failure_with(path("none")), "open the file of its stdin: No such file or directory");
    EXPECT_EQ(failure_with(path("")), "open the file of its stdin: Input/output error");
    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
    EXPECT_EQ(failure_with(path("fifo")), "open the file of its stdin: Input/output error") << "and nobody waits";
    UniqueFd const socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(failure_with(path("socket")), "open the file of its stdin: No such device or address");
}

INSTANTIATE_TEST_SUITE_P(InBothWays, SpawnInputTest, testing::Bool(),
                         [](auto const& which) { return which.param ? "Copy" : "Shared"; });

}  // namespace

}  // namespace triton::launcher::test
