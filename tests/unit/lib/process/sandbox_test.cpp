#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "launcher/plan/program_attributes.h"
#include "lib/process/capabilities.h"
#include "lib/process/landlock.h"
#include "lib/process/seccomp.h"
#include "lib/process/syscall_groups.h"
#include "tests/unit/lib/process/spawn_subject.h"

namespace triton::launcher {

namespace {

using namespace test;
using json::Problem;
using json::Problems;
using json::Where;
using process::SeccompAction;
using process::SeccompProfile;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// programs.web.<key>
struct At {
    explicit At(std::string_view key) : web{&document, std::string_view("web")}, place{&web, key} {}
    json::Where document;
    json::Where web;
    json::Where place;
};

template <class T>
std::vector<std::string> texts(std::expected<T, json::Problems> const& result) {
    std::vector<std::string> lines;
    if (!result) {
        for (json::Problem const& problem : result.error())
            lines.push_back(problem.text());
    }
    return lines;
}

// Capabilities.

constexpr process::CapabilitySet chown_bit = 1;
constexpr process::CapabilitySet net_bind = 1 << 10;
constexpr process::CapabilitySet net_admin = 1 << 12;

TEST(Capability, NamesInAnyCaseWithOrWithoutPrefix) {
    for (char const* const name : {"CAP_NET_ADMIN", "NET_ADMIN", "net_admin", "Cap_Net_Admin"})
        EXPECT_EQ(process::parse_capability(name), net_admin) << name;
    for (char const* const name : {"", "CAP_", "NET", "12", "cap_12", "CAP_NET_ADMIN ", "all"})
        EXPECT_EQ(process::parse_capability(name), std::nullopt) << name;
}

TEST(Capabilities, WhatIsNotSaidStaysInsideTheBound) {
    process::OwnCapabilities const own{.bounding = 0xffff, .permitted = 0xffff, .inheritable = 0x5, .ambient = 0x4};
    At const at("capabilities");
    auto const resolve = [&](process::CapabilitySettings const& wanted) {
        return process::resolve_capabilities(wanted, at.place, &own);
    };
    EXPECT_EQ(resolve({}), (process::CapabilityMasks{0, 0x5, 0x4}));
    EXPECT_EQ(resolve({.bounding = {{}}}), (process::CapabilityMasks{0xffff, 0, 0}));
    EXPECT_EQ(resolve({.bounding = {{"chown", "sys_admin"}}}), (process::CapabilityMasks{0xfffe, 0x1, 0}));
    EXPECT_EQ(resolve({.ambient = {{"net_bind_service"}}}), (process::CapabilityMasks{0, 0x5 | net_bind, net_bind}));
    EXPECT_EQ(resolve({.ambient = {{}}, .inheritable = {{"chown"}}}), (process::CapabilityMasks{0, chown_bit, 0}));
}

TEST(Capabilities, SaysAllThatIsWrong) {
    process::OwnCapabilities const own{.bounding = 0xff, .permitted = 0xff};
    At const at("capabilities");
    auto const wrong = process::resolve_capabilities(
        {.bounding = {{"CAP_CHWON"}}, .ambient = {{"NET_ADMIN", "FOO"}}, .inheritable = {{"CHOWN"}}}, at.place, &own);
    EXPECT_THAT(texts(wrong),
                ElementsAre("web.capabilities.bounding[0]: unknown capability \"CAP_CHWON\"; did you mean CAP_CHOWN?",
                            "web.capabilities.ambient[0]: CAP_NET_ADMIN is not in bounding",
                            "web.capabilities.ambient[1]: unknown capability \"FOO\"",
                            "web.capabilities.inheritable[0]: CAP_CHOWN is not in bounding"));
    process::CapabilitySettings const not_ours{.ambient = {{"NET_ADMIN"}}};
    EXPECT_THAT(texts(process::resolve_capabilities(not_ours, at.place, &own)),
                ElementsAre("web.capabilities.ambient[0]: the launcher itself does not have CAP_NET_ADMIN"));
    EXPECT_TRUE(process::resolve_capabilities(not_ours, at.place, nullptr));
}

// Seccomp.

process::Attributes with_seccomp(process::SeccompSettings const& seccomp) {
    At const at("seccomp");
    auto filter = process::SeccompFilter::create(seccomp, at.place);
    EXPECT_THAT(texts(filter), IsEmpty());
    process::Attributes attributes;
    attributes.no_new_privileges = true;
    if (filter) attributes.seccomp = std::move(*filter);
    return attributes;
}

/// Results of one call in a process with that filter.
std::string call(process::SeccompSettings const& seccomp, std::vector<long> const& numbers) {
    std::vector<std::string> arguments;
    for (long const number : numbers)
        arguments.push_back(std::to_string(number));
    Outcome const outcome = run(plan_of(CALL_PROGRAM, arguments, with_seccomp(seccomp)));
    if (WIFSIGNALED(outcome.status)) return "signal " + std::to_string(WTERMSIG(outcome.status));
    if (outcome.error) return process::stage_text(outcome.error->stage) + ": " + errno_text(outcome.error->code);
    return outcome.output;
}

std::string const refused = "-1\n";  // EPERM
std::string const missing = std::to_string(-ENOSYS) + "\n";

TEST(SeccompGroups, NameOnlyWhatExists) {
    for (process::SyscallGroup const& group : process::syscall_groups) {
        for (std::string_view rest = group.members; !rest.empty();) {
            std::size_t const end = std::min(rest.find(' '), rest.size());
            std::string const name(rest.substr(0, end));
            rest.remove_prefix(std::min(end + 1, rest.size()));
            if (name[0] == '@') {
                bool const stands_above = std::ranges::any_of(std::span(std::begin(process::syscall_groups), &group),
                                                              [&](auto const& other) { return other.name == name; });
                EXPECT_TRUE(stands_above) << name << " in " << group.name;
                continue;
            }
            // Newer than the libseccomp of Debian 12, of other architectures, or gone: it knows no number.
            static std::vector<std::string_view> const newer{
                "map_shadow_stack", "mseal",     "riscv_hwprobe", "uretprobe",   "fchmodat2",
                "cachestat",        "listmount", "statmount",     "afs_syscall", "_sysctl"};
            if (std::ranges::find(newer, name) != newer.end()) continue;
            EXPECT_NE(::seccomp_syscall_resolve_name(name.c_str()), __NR_SCMP_ERROR) << name << " in " << group.name;
        }
    }
}

TEST(Seccomp, ProgramsRunUnderEachProfile) {
    for (SeccompProfile const profile : {SeccompProfile::standard, SeccompProfile::strict, SeccompProfile::none}) {
        for (SeccompAction const action : {SeccompAction::error, SeccompAction::kill, SeccompAction::log}) {
            process::Attributes attributes = with_seccomp({.profile = profile, .action = action});
            Outcome const outcome = run_shell(
                "grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status; (ls / | sort >/dev/null) && date >/dev/null",
                std::move(attributes));
            EXPECT_EQ(outcome.output, "NoNewPrivs:\t1\nSeccomp:\t2\n");
            EXPECT_EQ(outcome.status, 0);
        }
    }
}

TEST(Seccomp, ProfilesRefuseWhatReachesTheMachine) {
    for (SeccompProfile const profile : {SeccompProfile::standard, SeccompProfile::strict}) {
        for (long const number : {SYS_mount, SYS_ptrace, SYS_bpf, SYS_keyctl, SYS_init_module, SYS_unshare, SYS_setns,
                                  SYS_perf_event_open, SYS_io_uring_setup, SYS_reboot, SYS_chroot, SYS_pivot_root,
                                  SYS_kexec_load, SYS_userfaultfd, SYS_swapon, SYS_settimeofday})
            EXPECT_EQ(call({.profile = profile}, {number, 0, 0}), refused) << number;
        EXPECT_EQ(call({.profile = profile}, {SYS_clone3, 0, 0}), missing);
        EXPECT_EQ(call({.profile = profile}, {600}), missing) << "newer than libseccomp";
    }
    EXPECT_EQ(call({.profile = SeccompProfile::none}, {SYS_clone3, 0, 0}), std::to_string(-EINVAL) + "\n");
}

TEST(Seccomp, StrictMakesNoSockets) {
    std::vector<long> const socket{SYS_socket, AF_UNIX, SOCK_STREAM, 0};
    EXPECT_EQ(call({.profile = SeccompProfile::strict}, socket), refused);
    EXPECT_EQ(call({}, socket), "3\n");
    EXPECT_EQ(call({.profile = SeccompProfile::strict, .allow = {"socket"}}, socket), "3\n");
    EXPECT_EQ(call({.deny = {"@network-io"}}, socket), refused);
    EXPECT_EQ(call({.allow = {"socket"}, .deny = {"@network"}}, socket), refused) << "deny comes last";
    EXPECT_EQ(call({.profile = SeccompProfile::none, .deny = {"socket"}}, socket), refused);
    EXPECT_EQ(call({.profile = SeccompProfile::none}, socket), "3\n");
}

TEST(Seccomp, CloneMakesNoNamespaces) {
    // CLONE_THREAD without what it needs: the kernel refuses it, the filter does not.
    std::string const by_kernel = std::to_string(-EINVAL) + "\n";
    EXPECT_EQ(call({}, {SYS_clone, CLONE_THREAD, 0}), by_kernel);
    for (long const flag :
         {CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWCGROUP}) {
        EXPECT_EQ(call({}, {SYS_clone, flag | CLONE_THREAD, 0}), refused);
        EXPECT_EQ(call({}, {SYS_clone, flag | CLONE_NEWUSER | CLONE_NEWNET | CLONE_THREAD, 0}), refused);
        EXPECT_EQ(call({.allow = {"@namespaces"}}, {SYS_clone, flag | CLONE_THREAD, 0}), by_kernel);
    }
    EXPECT_EQ(call({.allow = {"@namespaces"}}, {SYS_clone3, 0, 0}), by_kernel);
    EXPECT_EQ(call({.allow = {"clone"}}, {SYS_clone, CLONE_NEWUSER | CLONE_THREAD, 0}), refused);
}

TEST(Seccomp, Actions) {
    EXPECT_EQ(call({.action = SeccompAction::kill}, {SYS_mount, 0, 0}), "signal " + std::to_string(SIGSYS));
    EXPECT_EQ(call({.action = SeccompAction::kill}, {SYS_clone3, 0, 0}), missing) << "libc falls back";
    EXPECT_EQ(call({.action = SeccompAction::log}, {SYS_mount, 0, 0}), std::to_string(-EFAULT) + "\n");
    EXPECT_EQ(
        call({.profile = SeccompProfile::none, .deny = {"mount"}, .action = SeccompAction::kill}, {SYS_mount, 0, 0}),
        "signal " + std::to_string(SIGSYS));
}

#if defined(__x86_64__)
TEST(Seccomp, OtherCallingConventionsAreRefused) {
    constexpr long x32 = 0x40000000;
    EXPECT_EQ(call({}, {x32 | SYS_getpid}), refused);
    EXPECT_EQ(call({.profile = SeccompProfile::none, .deny = {"socket"}}, {x32 | SYS_socket, 1, 1, 0}), refused);
    EXPECT_EQ(call({.action = SeccompAction::kill}, {x32 | SYS_getpid}), "signal " + std::to_string(SIGSYS));
}
#endif

TEST(Seccomp, SaysAllThatIsWrong) {
    At const at("seccomp");
    EXPECT_THAT(texts(process::SeccompFilter::create(
                    {.allow = {"mount", "foo"}, .deny = {"@netwrok", "execve", "@default"}}, at.place)),
                ElementsAre("web.seccomp.allow[1]: unknown system call \"foo\"",
                            "web.seccomp.deny[0]: unknown group of system calls \"@netwrok\"; did you mean @network?",
                            "web.seccomp.deny[1]: no program can be started without execve",
                            testing::StartsWith("web.seccomp.deny[2]: no program can be started without ")));
    EXPECT_THAT(texts(process::SeccompFilter::create({.profile = SeccompProfile::none, .allow = {"mount"}}, at.place)),
                ElementsAre("web.seccomp.allow: has no effect with profile \"none\", which allows all but `deny`"));
    EXPECT_THAT(texts(process::SeccompFilter::create({.deny = {"socketcall"}}, at.place)), IsEmpty())
        << "another architecture's";
    EXPECT_THAT(texts(process::SeccompFilter::create({.deny = {"mkdirr"}}, at.place)),
                ElementsAre(HasSubstr("did you mean mkdir?")));
}

// Landlock.

class LandlockTest : public testing::Test {
protected:
    void SetUp() override {
        if (process::landlock_abi() < 3)
            GTEST_SKIP() << "needs Landlock of ABI 3 (Linux 6.2), has " << process::landlock_abi();
        for (char const* const name : {"read", "write", "run", "none"}) {
            ASSERT_EQ(::mkdir(path(name).c_str(), 0755), 0);
            std::ofstream(path(std::string(name) + "/file")) << name;
            ASSERT_EQ(std::system(("cp '" CALL_PROGRAM "' " + path(name) + "/call").c_str()), 0);
        }
    }

    [[nodiscard]] std::string path(std::string const& name) const { return directory_.path() + "/" + name; }

    [[nodiscard]] process::Attributes attributes(std::string const& root = {}) const {
        std::string const prefix = root.empty() ? directory_.path() : "";
        At const at("landlock");
        auto ruleset = process::LandlockRuleset::create(
            {.read_only = {prefix + "/read"}, .read_write = {prefix + "/write"}, .execute = {prefix + "/run"}},
            at.place, root);
        EXPECT_THAT(texts(ruleset), IsEmpty());
        process::Attributes with;
        with.no_new_privileges = true;
        with.root_directory = root;
        if (ruleset) with.landlock = std::move(*ruleset);
        return with;
    }

    /// The result of a call of call.cpp.
    [[nodiscard]] std::string call(std::vector<std::string> const& arguments) const {
        return run(plan_of(path("run/call"), arguments, attributes())).output;
    }

    [[nodiscard]] std::string open(std::string const& name, int flags) const {
        return call({std::to_string(SYS_openat), "-100", path(name), std::to_string(flags), "420"});
    }

    Directory directory_;
};

std::string const denied = std::to_string(-EACCES) + "\n";

TEST_F(LandlockTest, PathsSayWhatMayBeDone) {
    EXPECT_EQ(open("read/file", O_RDONLY), "3\n");
    EXPECT_EQ(open("read", O_RDONLY | O_DIRECTORY), "3\n");
    EXPECT_EQ(open("read/file", O_WRONLY), denied);
    EXPECT_EQ(open("read/new", O_WRONLY | O_CREAT), denied);
    EXPECT_EQ(open("write/file", O_RDWR | O_TRUNC), "3\n");
    EXPECT_EQ(open("write/new", O_WRONLY | O_CREAT), "3\n");
    EXPECT_EQ(open("run/file", O_RDONLY), "3\n");
    EXPECT_EQ(open("run/file", O_WRONLY), denied);
    EXPECT_EQ(open("none/file", O_RDONLY), denied);
    EXPECT_EQ(open("none", O_RDONLY | O_DIRECTORY), denied);
}

TEST_F(LandlockTest, NobodyTruncatesWhatIsReadOnly) {
    EXPECT_EQ(call({std::to_string(SYS_truncate), path("read/file"), "0"}), denied);
    EXPECT_EQ(call({std::to_string(SYS_truncate), path("none/file"), "0"}), denied);
    EXPECT_EQ(call({std::to_string(SYS_truncate), path("write/file"), "0"}), "0\n");
}

TEST_F(LandlockTest, OnlyWhatIsExecutableIsExecuted) {
    for (char const* const name : {"read/call", "write/call", "none/call"}) {
        Outcome const outcome = run(plan_of(path(name), {"39"}, attributes()));
        EXPECT_EQ(outcome.error, (process::SpawnError{process::SpawnStage::execute, EACCES})) << name;
    }
    Outcome const outcome = run(plan_of(path("run/call"), {"39"}, attributes()));
    EXPECT_EQ(outcome.output, std::to_string(outcome.pid) + "\n");
}

TEST_F(LandlockTest, PathsAreThoseInsideTheRootDirectory) {
    SKIP_UNLESS_ROOT();
    ASSERT_EQ(::symlink("/read", path("link").c_str()), 0);
    At const at("landlock");
    auto ruleset = process::LandlockRuleset::create({.read_only = {"/link"}, .execute = {"/run/../run/call"}}, at.place,
                                                    directory_.path());
    ASSERT_THAT(texts(ruleset), IsEmpty());
    process::Attributes with;
    with.root_directory = directory_.path();
    with.no_new_privileges = true;
    with.landlock = std::move(*ruleset);
    auto const arguments = [](std::string const& name) {
        return std::vector<std::string>{std::to_string(SYS_openat), "-100", name, "0"};
    };
    EXPECT_EQ(run(plan_of("/run/call", arguments("/read/file"), std::move(with))).output, "3\n");
    EXPECT_EQ(run(plan_of("/run/call", arguments("/none/file"), attributes(directory_.path()))).output, denied);
}

TEST_F(LandlockTest, SaysAllThatIsMissing) {
    At const at("landlock");
    std::string const inside = " inside " + directory_.path();
    EXPECT_THAT(
        texts(process::LandlockRuleset::create({.read_only = {"/nonexistent", "/read"}, .execute = {"/none/x"}},
                                               at.place, directory_.path())),
        ElementsAre("web.landlock.readOnly[0]: cannot open /nonexistent" + inside + ": No such file or directory",
                    "web.landlock.execute[0]: cannot open /none/x" + inside + ": No such file or directory"));
    EXPECT_THAT(texts(process::LandlockRuleset::create({.read_write = {"/nonexistent"}}, at.place, "")),
                ElementsAre("web.landlock.readWrite[0]: cannot open /nonexistent: No such file or directory"));
}

TEST(SeccompFilter, ExplainsAHundredUnknownNamesAndCountsTheRest) {
    At const at("seccomp");
    process::SeccompSettings settings;
    for (int i = 0; i < 50'000; ++i)
        settings.allow.push_back("mkdri" + std::to_string(i % 10));
    auto const lines = texts(process::SeccompFilter::create(settings, at.place));
    ASSERT_EQ(lines.size(), 101U);
    EXPECT_EQ(lines[99], "web.seccomp.allow[99]: unknown system call \"mkdri9\"; did you mean mkdir?");
    EXPECT_EQ(lines[100], "and 49900 more");
}

TEST(Capabilities, ExplainAHundredUnknownNamesAndCountTheRest) {
    At const at("capabilities");
    auto const lines = texts(
        process::resolve_capabilities({.bounding = std::vector<std::string>(50'000, "CHWON")}, at.place, nullptr));
    ASSERT_EQ(lines.size(), 101U);
    EXPECT_EQ(lines[99], "web.capabilities.bounding[99]: unknown capability \"CHWON\"; did you mean CAP_CHOWN?");
    EXPECT_EQ(lines[100], "and 49900 more");
}

TEST(SeccompFilter, IsCompiledOnceWhileAnEqualOneLives) {
    At const at("seccomp");
    process::SeccompSettings const settings{.profile = SeccompProfile::none, .deny = {"mount", "umount2"}};
    auto const before = process::SeccompFilter::compilations();
    {
        auto const first = process::SeccompFilter::create(settings, at.place);
        auto const second = process::SeccompFilter::create(settings, at.place);
        ASSERT_TRUE(first && second);
        EXPECT_EQ(first->program().filter, second->program().filter);
        EXPECT_EQ(process::SeccompFilter::compilations(), before + 1);
        auto const other =
            process::SeccompFilter::create({.profile = SeccompProfile::none, .deny = {"mount"}}, at.place);
        ASSERT_TRUE(other);
        EXPECT_NE(other->program().filter, first->program().filter);
        EXPECT_EQ(process::SeccompFilter::compilations(), before + 2);
    }
    EXPECT_TRUE(process::SeccompFilter::create(settings, at.place));
    EXPECT_EQ(process::SeccompFilter::compilations(), before + 3);
}

// All of a program.

TEST(ResolveAttributes, TriesAndPreparesEqualProgramsOnce) {
    config::Program program;
    program.nice = 1;
    program.landlock = process::LandlockSettings{.read_only = {"/usr"}};
    json::Where const document;
    process::LoadMemory memory;
    for (std::string_view const name : {"a", "b", "c"}) {
        auto const made =
            launcher::resolve_attributes(program, {&document, name}, process::MachineCheck::required, memory);
        if (!made) GTEST_SKIP() << made.error().front().text();
        EXPECT_EQ(made->landlock->fd(), memory.rulesets.front().fd());
    }
    EXPECT_EQ(memory.trials.size(), 1U);
    EXPECT_EQ(memory.rulesets.size(), 1U);
    program.nice = 2;
    ASSERT_TRUE(launcher::resolve_attributes(program, document, process::MachineCheck::required, memory));
    EXPECT_EQ(memory.trials.size(), 2U);
}

TEST(ResolveAttributes, TellsEachProgramOfWhatWasTriedForAnother) {
    config::Program program;
    program.cpu_affinity = {8191};
    json::Where const document;
    process::LoadMemory memory;
    for (std::string_view const name : {"a", "b"}) {
        EXPECT_THAT(
            texts(launcher::resolve_attributes(program, {&document, name}, process::MachineCheck::required, memory)),
            ElementsAre(std::string(name) + ".cpuAffinity: none of these CPUs exists and is allowed for the launcher"));
    }
    EXPECT_EQ(memory.trials.size(), 1U);
}

TEST(ResolveAttributes, CollectsWhatIsWrongEverywhere) {
    config::Program program;
    program.user = process::IdOrName("no-such-user");
    program.capabilities = process::CapabilitySettings{.bounding = {{"FOO"}}};
    program.seccomp = process::SeccompSettings{.deny = {"foo"}};
    program.landlock = process::LandlockSettings{.read_only = {"/nonexistent"}};
    json::Where const document;
    json::Where const web{&document, std::string_view("web")};
    auto const lines = texts(launcher::resolve_attributes(program, web));
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_EQ(lines[0], "web.user: no user \"no-such-user\" in /etc/passwd");
    EXPECT_EQ(lines[1], "web.capabilities.bounding[0]: unknown capability \"FOO\"");
    EXPECT_EQ(lines[2], "web.seccomp.deny[0]: unknown system call \"foo\"");
    EXPECT_THAT(lines[3], testing::StartsWith("web.landlock"));
    EXPECT_THAT(texts(launcher::resolve_attributes(program, web, process::MachineCheck::skipped)),
                ElementsAre("web.capabilities.bounding[0]: unknown capability \"FOO\"",
                            "web.seccomp.deny[0]: unknown system call \"foo\""));
}

TEST(ResolveAttributes, SandboxesImplyNoNewPrivileges) {
    json::Where const at;
    config::Program program;
    EXPECT_EQ(launcher::resolve_attributes(program, at).value(), process::Attributes{});
    program.seccomp = process::SeccompSettings{};
    EXPECT_TRUE(launcher::resolve_attributes(program, at)->no_new_privileges);
    program.seccomp.reset();
    program.watchdog = std::chrono::milliseconds(1500);
    program.sockets.push_back({.name = "web"});
    auto const attributes = launcher::resolve_attributes(program, at);
    EXPECT_EQ(attributes->watchdog_microseconds, 1'500'000U);
    EXPECT_THAT(attributes->listen_names, ElementsAre("web"));
    EXPECT_FALSE(attributes->no_new_privileges);
}

}  // namespace

}  // namespace triton::launcher
