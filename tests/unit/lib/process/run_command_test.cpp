#include "lib/process/run_command.h"

#include <array>
#include <csignal>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"

namespace triton::process {
namespace {

using std::chrono::milliseconds;

Command shell(std::string script) {
    return {.arguments = {"sh", "-c", std::move(script)}, .timeout = milliseconds(20000)};
}

TEST(RunCommand, KeepsBothStreamsAndTheExitCode) {
    auto const done = run_command(shell("echo out; echo err >&2; exit 3"));
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(done->output, "out\n");
    EXPECT_EQ(done->errors, "err\n");
    EXPECT_EQ(done->exit_code, 3);
    EXPECT_EQ(done->signal, 0);
    EXPECT_FALSE(done->is_ok());
    EXPECT_TRUE(done->is_whole);
}

TEST(RunCommand, TellsTheSignal) {
    auto const done = run_command(shell("kill -TERM $$"));
    ASSERT_TRUE(done);
    EXPECT_EQ(done->signal, SIGTERM);
    EXPECT_FALSE(done->is_ok());
}

TEST(RunCommand, SaysWhatItCannotExecute) {
    auto const done = run_command({.arguments = {"/nonexistent/program"}});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::not_found);
    EXPECT_EQ(done.error().text(), "cannot execute /nonexistent/program: No such file or directory");
}

TEST(RunCommand, ReadsNothingUnlessItIsGivenSomething) {
    auto const done = run_command(shell("cat"));
    ASSERT_TRUE(done);
    EXPECT_EQ(done->output, "");
    EXPECT_TRUE(done->is_ok());
}

TEST(RunCommand, ForgetsWhatIsTooLongAndSaysSo) {
    Command command = shell("head -c 1000000 /dev/zero; echo short >&2");
    command.most_output = 1000;
    auto const done = run_command(command);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->output, std::string(1000, '\0'));
    EXPECT_EQ(done->errors, "short\n");
    EXPECT_FALSE(done->is_whole);
    EXPECT_TRUE(done->is_ok()) << "it was able to write all of it";
}

TEST(RunCommand, KillsItsWholeGroupWhenItsTimeIsOver) {
    Command command = shell("sleep 1000 & echo $!; wait");
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    UniqueFd const reader{ends[0]};
    UniqueFd writer{ends[1]};
    command.out = writer.get();
    command.timeout = milliseconds(300);
    auto const done = run_command(command);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::timeout);
    EXPECT_EQ(done.error().text(), "cannot run sh: did not end within 300 ms");
    writer = UniqueFd{};
    // The end of file comes only when the grandchild has gone, too.
    std::string text;
    char c = 0;
    while (::read(reader.get(), &c, 1) == 1)
        text += c;
    EXPECT_GT(std::stoi(text), 0);
}

TEST(RunCommand, KillsItsWholeGroupWhenItIsCancelled) {
    int ends[2];
    int cancel[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(cancel, O_CLOEXEC), 0);
    UniqueFd const reader{ends[0]};
    UniqueFd writer{ends[1]};
    UniqueFd const cancelled{cancel[0]};
    UniqueFd const canceller{cancel[1]};
    Command command = shell("sleep 1000 & echo started >&3; echo $!; wait");
    command.out = writer.get();
    command.descriptors = {canceller.get()};
    command.cancel = cancelled.get();
    auto const done = run_command(command);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::refused);
    EXPECT_EQ(done.error().text(), "cancelled");
    writer = UniqueFd{};
    // The end of file comes only when the grandchild has gone, too.
    char c = 0;
    ssize_t got = 1;
    while (got == 1)
        got = ::read(reader.get(), &c, 1);
    EXPECT_EQ(got, 0);
}

TEST(RunCommand, DoesNotWaitForWhatAChildLeavesBehind) {
    auto const done = run_command(shell("sleep 1000 & echo started"));
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(done->output, "started\n");
    EXPECT_TRUE(done->is_ok());
}

TEST(RunCommand, HandsOverDescriptorsAndNoOthers) {
    UniqueFd const stray{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    UniqueFd const directory{::open("/", O_PATH | O_CLOEXEC)};
    UniqueFd const null{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    // no pipe between programs of the shell: that is a descriptor of it, too
    Command command = shell(
        "readlink /proc/self/fd/3 /proc/self/fd/4;"
        "for file in /proc/$$/fd/*; do [ ! -e $file ] || printf '%s ' ${file##*/}; done");
    command.descriptors = {directory.get(), null.get()};
    auto const done = run_command(command);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->output, "/\n/dev/null\n0 1 2 3 4 ");
}

TEST(RunCommand, SwapsDescriptorsThatStandInEachOthersPlace) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    UniqueFd const reader{ends[0]};
    UniqueFd const writer{ends[1]};
    UniqueFd const three{::fcntl(reader.get(), F_DUPFD_CLOEXEC, 3)};
    Command command = shell("echo x >&3; head -n 1 <&4");
    command.descriptors = {writer.get(), three.get()};
    auto const done = run_command(command);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->output, "x\n");
}

TEST(RunCommand, UsesTheGivenEnvironmentAlone) {
    Command command = {.arguments = {"/usr/bin/env"}, .environment = {{"LC_ALL=C", "A=b c"}}};
    auto const done = run_command(command);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->output, "LC_ALL=C\nA=b c\n");
}

TEST(RunCommand, ResetsSignals) {
    auto* const before = ::signal(SIGPIPE, SIG_IGN);
    auto const done = run_command(shell("kill -PIPE $$; echo ignored"));
    ::signal(SIGPIPE, before);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->signal, SIGPIPE);
}

TEST(RunCommand, DiesWithWhoRunsIt) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    UniqueFd const reader{pipe[0]};
    UniqueFd writer{pipe[1]};
    pid_t const runner = ::fork();
    if (runner == 0) {
        Command command = shell("echo started; exec sleep 1000");
        command.out = writer.get();
        command.dies_with_us = true;
        (void)run_command(command);
        ::_exit(0);
    }
    writer = UniqueFd{};
    std::array<char, 16> text{};
    ASSERT_EQ(::read(reader.get(), text.data(), text.size()), 8);
    ASSERT_EQ(::kill(runner, SIGKILL), 0);
    ASSERT_EQ(::waitpid(runner, nullptr, 0), runner);
    EXPECT_EQ(::read(reader.get(), text.data(), text.size()), 0);  // nobody has the pipe any more
}

}  // namespace
}  // namespace triton::process
