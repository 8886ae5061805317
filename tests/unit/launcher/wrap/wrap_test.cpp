#include "launcher/wrap/wrap.h"

#include <array>
#include <cerrno>
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

}  // namespace

}  // namespace triton::launcher
