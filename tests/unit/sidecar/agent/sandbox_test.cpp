#include "sidecar/agent/sandbox.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/path_watcher.h"
#include "lib/base/unique_fd.h"
#include "lib/files/confined_directory.h"

namespace triton::agent {
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
        auto const output = files::ConfinedDirectory::open(area_ / "out");
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

TEST_F(Sandbox, AFileMayBeReadWithoutItsDirectory) {
    constexpr int skipped = 100;
    int const wrong = in_child([this] {
        SandboxRules rules;
        rules.read_only = {area_ / "secret", "/dev/urandom", area_ / "missing"};
        SandboxReport report;
        if (!drop_rights(rules, report)) return 101;
        if (!report.has_landlock) return skipped;
        if (!can_open("secret", O_RDONLY) || can_open("secret", O_WRONLY)) return 1;
        if (can_open("out/a", O_RDONLY) || can_open("out", O_RDONLY | O_DIRECTORY)) return 2;
        UniqueFd const device{::open("/dev/urandom", O_RDONLY | O_CLOEXEC)};
        return device ? 0 : 3;
    });
    if (wrong == skipped) GTEST_SKIP() << "this kernel has no Landlock";
    EXPECT_EQ(wrong, 0);
}

TEST_F(Sandbox, WhatIsOutOfReachIsToldFromWhatMayNotBeRead) {
    constexpr int skipped = 100;
    std::ofstream(area_ / "closed") << "c";
    ASSERT_EQ(::chmod((area_ / "closed").c_str(), 0), 0);
    int const wrong = in_child([this] {
        SandboxRules rules;
        rules.read_only = {area_ / "out"};
        SandboxReport report;
        if (!drop_rights(rules, report) || !filter_system_calls({}, report)) return 101;
        if (!report.has_landlock) return skipped;
        if (is_out_of_reach(area_ / "out/a")) return 1;
        if (!is_out_of_reach(area_ / "secret")) return 2;
        return is_out_of_reach(area_ / "closed") || is_out_of_reach(area_ / "missing") ? 3 : 0;
    });
    if (wrong == skipped) GTEST_SKIP() << "this kernel has no Landlock";
    EXPECT_EQ(wrong, 0);
}

/// Relative paths too: where we are must be known for that.
TEST_F(Sandbox, ChangesAreWatchedWhereNothingMayBeRead) {
    int const wrong = in_child([this] {
        auto watcher = PathWatcher::create();
        SandboxReport report;
        if (!watcher || ::chdir(area_.c_str()) != 0) return 101;
        if (!drop_rights({}, report) || !filter_system_calls({}, report)) return 102;
        if (!watcher->watch(std::vector<std::string>{"out/a"})) return 1;
        return ::close(::open("out/a", O_RDONLY | O_CLOEXEC)) == 0 && report.has_landlock ? 2 : 0;
    });
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
        if (!filter_system_calls({}, report)) return 102;
        if (!report.has_seccomp) return skipped;
        if (!refused(::socket(AF_INET, SOCK_STREAM, 0)) || !refused(::socket(AF_NETLINK, SOCK_RAW, 0))) return 1;
        if (!refused(::socket(AF_UNIX, SOCK_STREAM, 0))) return 2;
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

/// Has the kernel answer seccomp(2), and prctl(2) where it sets a filter, with an error, as a container runtime does.
bool forbid_seccomp(int err) {
    auto const answer = static_cast<std::uint32_t>(SECCOMP_RET_ERRNO | err);
    std::array<sock_filter, 7> program{{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    sock_fprog const filter{program.size(), program.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

TEST_F(Sandbox, WithoutSeccompTheReportSaysSo) {
    constexpr int skipped = 100;
    for (int const err : {EPERM, EACCES, ENOSYS, EINVAL}) {
        for (bool const is_known : {false, true}) {
            int const wrong = in_child([err, is_known] {
                // libseccomp looks once what the kernel can do. Known before, it is the load that fails.
                if (is_known) ::seccomp_release(::seccomp_init(SCMP_ACT_ALLOW));
                if (!forbid_seccomp(err)) return skipped;
                SandboxReport report;
                if (!filter_system_calls({}, report)) return 1;
                return report.has_seccomp || report.missing.find("no seccomp") == std::string::npos ? 2 : 0;
            });
            if (wrong == skipped) GTEST_SKIP() << "this kernel has no seccomp filters";
            EXPECT_EQ(wrong, 0) << err << is_known;
        }
    }
}

/// What an attacker does who makes the agent run his code under the launcher's uid: it reaches the control socket by
/// its path, and signals by way of a descriptor.
TEST_F(Sandbox, NeitherTheLaunchersSocketNorItsProcessIsWithinReach) {
    constexpr int skipped = 100;
    std::string const path = area_ / "control";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(path.size(), sizeof address.sun_path);
    path.copy(address.sun_path, path.size());
    UniqueFd const server{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    auto* const to = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(::bind(server.get(), to, sizeof address), 0);
    ASSERT_EQ(::listen(server.get(), 4), 0);
    for (bool const has_control_socket : {false, true}) {
        for (bool const may_connect : {false, true}) {
            int const wrong = in_child([&] {
                SandboxRules rules;
                rules.may_connect = may_connect;
                rules.may_connect_by_path = has_control_socket;
                auto const refused = [](long result) { return result < 0 && errno == EPERM; };
                int pair[2];
                if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return 101;
                UniqueFd const before{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
                SandboxReport report;
                if (!drop_rights(rules, report) || !filter_system_calls(rules, report)) return 102;
                if (!report.has_seccomp) return skipped;
                UniqueFd const fresh{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
                if (static_cast<bool>(fresh) != has_control_socket) return 1;
                if (has_control_socket && ::connect(fresh.get(), to, sizeof address) != 0) return 2;
                bool const may_call_connect = has_control_socket || may_connect;
                if (!may_call_connect && !refused(::connect(before.get(), to, sizeof address))) return 3;
                if (::connect(pair[0], to, sizeof address) == 0) return 4;
                if (!refused(::fcntl(pair[0], F_SETOWN, ::getppid()))) return 5;
                f_owner_ex const owner{F_OWNER_PID, ::getppid()};
                if (!refused(::fcntl(pair[0], F_SETOWN_EX, &owner)) || !refused(::fcntl(pair[0], F_SETSIG, SIGKILL)))
                    return 6;
                if (!refused(::fcntl(pair[0], F_SETFL, O_ASYNC)) || ::fcntl(pair[0], F_SETFL, O_NONBLOCK) != 0)
                    return 7;
                int on = 1;
                if (!refused(::ioctl(pair[0], FIOASYNC, &on))) return 8;
                int const parent = ::getppid();
                if (!refused(::ioctl(pair[0], FIOSETOWN, &parent)) || !refused(::ioctl(pair[0], SIOCSPGRP, &parent)))
                    return 9;
                return 0;
            });
            if (wrong == skipped) GTEST_SKIP() << "no seccomp filter in this build, or by this kernel";
            EXPECT_EQ(wrong, 0) << has_control_socket << may_connect;
        }
    }
}

/// Landlock alone, as where seccomp is not there.
TEST_F(Sandbox, LandlockKeepsSignalsAndAbstractSocketsInside) {
    constexpr int skipped = 100;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string const name = "triton-sandbox-" + std::to_string(::getpid());
    name.copy(address.sun_path + 1, name.size());
    auto const size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    auto* const to = reinterpret_cast<sockaddr*>(&address);
    UniqueFd const server{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    ASSERT_EQ(::bind(server.get(), to, size), 0);
    ASSERT_EQ(::listen(server.get(), 4), 0);
    int const wrong = in_child([&] {
        SandboxReport report;
        if (!drop_rights({}, report)) return 101;
        if (::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) < 6) return skipped;
        if (::kill(::getppid(), 0) == 0 || errno != EPERM) return 1;
        UniqueFd const client{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        if (::connect(client.get(), to, size) == 0 || errno != EPERM) return 2;
        UniqueFd const tcp{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        sockaddr_in any{};
        any.sin_family = AF_INET;
        any.sin_port = htons(1);
        if (::bind(tcp.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) == 0 || errno != EACCES) return 3;
        return 0;
    });
    if (wrong == skipped) GTEST_SKIP() << "this kernel's Landlock has no scopes";
    EXPECT_EQ(wrong, 0);
}

TEST_F(Sandbox, TcpGoesOutWhenTheRulesSaySo) {
    constexpr int skipped = 100;
    int const wrong = in_child([] {
        UniqueFd const server{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        if (::bind(server.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return 101;
        if (::listen(server.get(), 1) != 0) return 101;
        if (::getsockname(server.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 101;
        SandboxRules rules;
        rules.may_connect = true;
        SandboxReport report;
        if (!drop_rights(rules, report)) return 102;
        auto const refused = [](long result) { return result < 0 && errno == EPERM; };
        if (!filter_system_calls(rules, report)) return 103;
        if (!report.has_seccomp) return skipped;
        UniqueFd const client{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP)};
        if (!client) return 1;
        if (::connect(client.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 && errno != EINPROGRESS) return 2;
        // A machine without IPv6 answers too, but not with EPERM.
        if (refused(::socket(AF_INET6, SOCK_STREAM, IPPROTO_TCP))) return 3;
        if (!refused(::socket(AF_INET, SOCK_DGRAM, IPPROTO_UDP)) || !refused(::socket(AF_INET, SOCK_RAW, 1))) return 4;
        if (!refused(::socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP))) return 5;
        if (!refused(::bind(client.get(), reinterpret_cast<sockaddr*>(&address), size))) return 6;
        if (!refused(::listen(client.get(), 1))) return 7;
        int pair[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return 8;
        if (!refused(::socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) || !refused(::socket(AF_UNIX, SOCK_DGRAM, 0)))
            return 9;
        return 0;
    });
    if (wrong == skipped) GTEST_SKIP() << "no seccomp filter in this build, or by this kernel";
    EXPECT_EQ(wrong, 0);
}

TEST_F(Sandbox, UdpGoesOutWhenTheRulesSaySo) {
    constexpr int skipped = 100;
    int const wrong = in_child([] {
        SandboxRules rules;
        rules.may_connect = rules.may_resolve = true;
        SandboxReport report;
        if (!drop_rights(rules, report)) return 101;
        auto const refused = [](long result) { return result < 0 && errno == EPERM; };
        if (!filter_system_calls(rules, report)) return 102;
        if (!report.has_seccomp) return skipped;
        for (int const protocol : {0, static_cast<int>(IPPROTO_UDP)}) {
            UniqueFd const socket{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, protocol)};
            if (!socket || refused(::socket(AF_INET6, SOCK_DGRAM, protocol))) return 1;
        }
        UniqueFd const stream{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        if (!stream) return 2;
        if (!refused(::socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP)) || !refused(::socket(AF_INET, SOCK_RAW, 1))) return 3;
        if (!refused(::socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP))) return 4;
        if (!refused(::socket(AF_NETLINK, SOCK_DGRAM, 0)) || !refused(::socket(AF_UNIX, SOCK_DGRAM, 0))) return 5;
        sockaddr_in address{};
        address.sin_family = AF_INET;
        return refused(::bind(stream.get(), reinterpret_cast<sockaddr*>(&address), sizeof address)) ? 0 : 6;
    });
    if (wrong == skipped) GTEST_SKIP() << "no seccomp filter in this build, or by this kernel";
    EXPECT_EQ(wrong, 0);
}

TEST_F(Sandbox, ADirectoryOfLinksThatChangesStaysReadable) {
    constexpr int skipped = 100;
    // As the kubelet mounts a service account, and as it rotates the token.
    std::filesystem::create_directories(area_ / "account/..one");
    std::ofstream(area_ / "account/..one/token") << "1";
    std::filesystem::create_directory_symlink("..one", area_ / "account/..data");
    std::filesystem::create_symlink("..data/token", area_ / "account/token");
    std::array<int, 2> asked{};
    std::array<int, 2> answered{};
    ASSERT_EQ(::pipe(asked.data()), 0);
    ASSERT_EQ(::pipe(answered.data()), 0);
    pid_t const child = ::fork();
    if (child == 0) {
        SandboxRules rules;
        rules.read_only = {area_ / "account"};
        SandboxReport report;
        if (!drop_rights(rules, report)) ::_exit(101);
        if (!report.has_landlock) ::_exit(skipped);
        if (!can_open("account/token", O_RDONLY)) ::_exit(1);
        char byte = 0;
        if (::write(asked[1], &byte, 1) != 1 || ::read(answered[0], &byte, 1) != 1) ::_exit(102);
        if (!can_open("account/token", O_RDONLY)) ::_exit(2);
        ::_exit(can_open("secret", O_RDONLY) ? 3 : 0);
    }
    ::close(asked[1]);
    char byte = 0;
    if (::read(asked[0], &byte, 1) == 1) {
        std::filesystem::create_directories(area_ / "account/..two");
        std::ofstream(area_ / "account/..two/token") << "2";
        std::filesystem::create_directory_symlink("..two", area_ / "account/..data.new");
        std::filesystem::rename(area_ / "account/..data.new", area_ / "account/..data");
        std::filesystem::remove_all(area_ / "account/..one");
        EXPECT_EQ(::write(answered[1], &byte, 1), 1);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    for (int const fd : {asked[0], answered[0], answered[1]})
        ::close(fd);
    if (WIFEXITED(status) && WEXITSTATUS(status) == skipped) GTEST_SKIP() << "this kernel has no Landlock";
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace triton::agent
