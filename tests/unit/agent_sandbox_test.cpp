#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "sidecar/agent/confined_directory.h"
#include "sidecar/agent/sandbox.h"

namespace triton::sidecar {
namespace {

/// Runs `body` in a child, for what cannot be undone. Returns what it returns, at most 255.
int in_child(std::function<int()> const& body) {
    pid_t const child = ::fork();
    if (child == 0) ::_exit(body());
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

class Sandbox : public testing::Test {
protected:
    void SetUp() override {
        std::string name = testing::TempDir() + "sandbox.XXXXXX";
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        area_ = name;
        std::filesystem::create_directories(area_ / "out");
        std::ofstream(area_ / "out/a") << "a";
        std::ofstream(area_ / "secret") << "s";
    }
    void TearDown() override { std::filesystem::remove_all(area_); }

    [[nodiscard]] bool can_open(char const* name, int flags) const {
        UniqueFd const fd{::open((area_ / name).c_str(), flags | O_CLOEXEC, 0600)};
        return static_cast<bool>(fd);
    }

    std::filesystem::path area_;
};

TEST_F(Sandbox, LandlockLeavesTheOutputDirectoryToBeReadAndNothingElse) {
    constexpr int skipped = 100;
    int const wrong = in_child([this] {
        auto const output = ConfinedDirectory::open(area_ / "out");
        SandboxReport report;
        SandboxRules rules;
        rules.output_directory = output->fd();
        if (!drop_rights(rules, report)) return 101;
        if (!report.has_landlock) return skipped;
        if (!output->open_file("a") || !can_open("out/a", O_RDONLY)) return 1;
        if (can_open("secret", O_RDONLY)) return 2;
        if (can_open("out/a", O_WRONLY) || can_open("out/new", O_WRONLY | O_CREAT)) return 3;
        if (::unlink((area_ / "out/a").c_str()) == 0 || ::mkdir((area_ / "out/d").c_str(), 0700) == 0) return 4;
        ::execl("/bin/true", "true", nullptr);
        return errno == EACCES ? 0 : 5;
    });
    if (wrong == skipped) GTEST_SKIP() << "this kernel has no Landlock";
    EXPECT_EQ(wrong, 0);
}

TEST_F(Sandbox, CapabilitiesAreGone) {
    int const wrong = in_child([] {
        SandboxReport report;
        if (!drop_rights({}, report)) return 1;
        // Who is root and has no capability may not do this.
        return ::setgid(12345) == 0 ? 2 : 0;
    });
    EXPECT_EQ(wrong, 0);
}

TEST_F(Sandbox, TheFilterLeavesWhatTheAgentDoes) {
    constexpr int skipped = 100;
    int const wrong = in_child([this] {
        SandboxReport report;
        if (!drop_rights({}, report)) return 101;
        auto const refused = [](long result) { return result < 0 && errno == EPERM; };
        if (!filter_system_calls(report)) return 102;
        if (!report.has_seccomp) return skipped;
        if (!refused(::socket(AF_INET, SOCK_STREAM, 0)) || !refused(::socket(AF_NETLINK, SOCK_RAW, 0))) return 1;
        UniqueFd const local{::socket(AF_UNIX, SOCK_STREAM, 0)};
        if (!local) return 2;
        if (!refused(::fork())) return 3;
        if (!refused(::execl("/bin/true", "true", nullptr))) return 4;
        if (!refused(::open((area_ / "out/a").c_str(), O_WRONLY))) return 5;
        if (!refused(::open((area_ / "out/b").c_str(), O_RDONLY | O_CREAT, 0600))) return 6;
        if (::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) return 7;
        std::vector<char> const memory(1 << 20);  // by mmap, without PROT_EXEC
        if (memory.back() != 0) return 8;
        if (!refused(::kill(::getppid(), 0)) || !refused(::unlink((area_ / "out/a").c_str()))) return 9;
        return 0;
    });
    if (wrong == skipped) GTEST_SKIP() << "no seccomp filter in this build, or by this kernel";
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace triton::sidecar
