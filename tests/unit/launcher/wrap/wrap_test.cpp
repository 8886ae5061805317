#include "launcher/wrap/wrap.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

/// In a process of its own, which blocks signals and becomes a subreaper. The command's environment is ours until it is
/// executed, and whoever reads it afterwards, for the message, must not find what lay on the stack of the child.
[[noreturn]] void fail_to_execute() {
    std::string const listen_pid = "LISTEN_PID=" + std::to_string(::getpid());
    std::string own = listen_pid;
    std::array words{std::string("triton-launch"), std::string("--"), std::string("/nonexistent/command")};
    std::array<char*, 4> argv{words[0].data(), words[1].data(), words[2].data(), nullptr};
    std::array<char*, 2> envp{own.data(), nullptr};
    WrapOptions options{};
    if (parse_wrap(3, argv.data(), envp.data(), options).result != WrapParse::wrap) ::_exit(2);
    WrapOutcome const outcome = run_wrap(options, argv.data(), envp.data(), nullptr);
    if (outcome.stage != WrapStage::execute || outcome.error != ENOENT) ::_exit(3);
    ::_exit(envp[0] == own.data() && own == listen_pid ? 0 : 1);
}

TEST(Wrap, ACommandThatCannotBeExecutedLeavesTheEnvironmentAsItWas) {
    pid_t const child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) fail_to_execute();
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

/// In a process of its own, whose root directory has a script without `#!` and no shell for it.
[[noreturn]] void fail_without_shell(char const* root) {
    if (::geteuid() != 0 && ::unshare(CLONE_NEWUSER) != 0) ::_exit(77);
    if (::chroot(root) != 0) ::_exit(77);
    std::array words{std::string("triton-launch"), std::string("--"), std::string("/script"), std::string("argument")};
    std::array<char*, 5> argv{words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    auto const before = argv;
    std::array<char*, 1> envp{};
    WrapOptions options{};
    if (parse_wrap(4, argv.data(), envp.data(), options).result != WrapParse::wrap) ::_exit(2);
    WrapOutcome const outcome = run_wrap(options, argv.data(), envp.data(), nullptr);
    if (outcome.stage != WrapStage::execute || outcome.error != ENOEXEC) ::_exit(3);
    ::_exit(argv == before ? 0 : 1);
}

// The words before the arguments held the shell's command line; the message that follows names the command.
TEST(Wrap, AScriptThatHasNoShellLeavesTheArgumentsAsTheyWere) {
    std::string root = ::testing::TempDir() + "wrap-XXXXXX";
    ASSERT_NE(::mkdtemp(root.data()), nullptr);
    std::ofstream(root + "/script") << "exit 0\n";
    std::filesystem::permissions(root + "/script", std::filesystem::perms::all);
    pid_t const child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) fail_without_shell(root.c_str());
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    std::filesystem::remove_all(root);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "may not change the root directory";
    EXPECT_EQ(status, 0);
}

// A storm of orphans, amid which the command ends. Whoever is told of one acts for it: the observer is in our process.

constexpr int orphans_of_a_storm = 16;
pid_t command = 0;
int reaped = 0;
int reaped_at_the_end = -1;

/// Returns when the child has ended; it stays to be reaped.
void await_end(pid_t child) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) != 0) ::_exit(4);
}

void leave_dead_child() {
    pid_t const child = ::fork();
    if (child == 0) ::_exit(0);
    await_end(child);
}

void storm(int pid) {
    command = pid;
    for (int i = 0; i < orphans_of_a_storm; ++i)
        leave_dead_child();
}

/// The signal waits until all of the storm have been reaped.
void count_reaped(int /*pid*/, int /*status*/) {
    if (++reaped == orphans_of_a_storm) (void)::kill(::getpid(), SIGUSR1);
}

/// Comes while those that end next may die: one more of them does, and so does the command.
void end_command(int /*signo*/, int /*pid*/) {
    reaped_at_the_end = reaped;
    leave_dead_child();
    (void)::kill(command, SIGKILL);
    await_end(command);
}

/// In a process of its own. It ends with the command, whose end is not lost among theirs and does not wait for them.
[[noreturn]] void end_in_a_storm() {
    ::alarm(20);
    std::array words{std::string("triton-launch"), std::string("--"), std::string("/bin/sleep"), std::string("1000")};
    std::array<char*, 5> argv{words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    std::array<char*, 1> envp{};
    WrapOptions options{};
    if (parse_wrap(4, argv.data(), envp.data(), options).result != WrapParse::wrap) ::_exit(2);
    WrapObserver const observer{storm, end_command, count_reaped, nullptr};
    // What is forwarded does not end it.
    options.rewrite[SIGUSR1] = SIGCONT;
    WrapOutcome const outcome = run_wrap(options, argv.data(), envp.data(), &observer);
    if (reaped_at_the_end != orphans_of_a_storm || reaped != orphans_of_a_storm) ::_exit(3);
    ::_exit(outcome.stage == WrapStage::none && outcome.code == 128 + SIGKILL ? 0 : 1);
}

TEST(Wrap, ACommandThatEndsAmidAStormOfOrphansIsNotMissed) {
    pid_t const child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) end_in_a_storm();
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

}  // namespace

}  // namespace triton::launcher
