#include "launcher/wrap/wrap.h"

#include <array>
#include <cerrno>
#include <string>

#include <gtest/gtest.h>
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

}  // namespace

}  // namespace triton::launcher
