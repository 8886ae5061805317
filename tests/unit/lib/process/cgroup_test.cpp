#include "lib/process/cgroup.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <dirent.h>
#include <gmock/gmock.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "tests/unit/lib/process/spawn_subject.h"

namespace triton::launcher {

namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string content_of(std::string const& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
std::string text_of(Result<T> const& result) {
    return result ? "ok" : result.error().text();
}

// Where it is.

TEST(FindOwnCgroup, ByTheMount) {
    struct Case {
        char const* mountinfo;
        char const* cgroup;
        std::optional<std::string> path;
    };
    constexpr char unified[] = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    constexpr char hybrid[] =
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    constexpr char of_docker[] = "29 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    constexpr char outside[] = "29 23 0:26 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    constexpr char blanks[] = "29 23 0:26 / /a\\040b\\134c rw - cgroup2 cgroup2 rw\n";
    Case const cases[] = {
        {unified, "0::/system.slice/x.service\n", "/sys/fs/cgroup/system.slice/x.service"},
        {unified, "0::/\n", "/sys/fs/cgroup"},
        {hybrid, "4:memory:/m\n1:name=systemd:/s\n0::/u\n", "/sys/fs/cgroup/unified/u"},
        {of_docker, "0::/docker/abc\n", "/sys/fs/cgroup"},
        {of_docker, "0::/docker/abc/x\n", "/sys/fs/cgroup/x"},
        {of_docker, "0::/docker/abcd\n", std::nullopt},
        {of_docker, "0::/\n", std::nullopt},
        {outside, "0::/\n", std::nullopt},
        {unified, "0::/../other\n", std::nullopt},
        {unified, "4:memory:/m\n", std::nullopt},
        {"", "0::/\n", std::nullopt},
        {blanks, "0::/x\n", "/a b\\c/x"},
    };
    for (Case const& each : cases)
        EXPECT_EQ(process::find_own_cgroup(each.mountinfo, each.cgroup), each.path) << each.mountinfo << each.cgroup;
}

// Limits, in a directory that plays a cgroup: this needs no privilege and no controller.

class Stage : public testing::Test {
protected:
    static constexpr std::array files{"memory.max", "memory.high", "memory.min", "memory.swap.max",
                                      "pids.max",   "cpu.max",     "cpu.weight"};

    void SetUp() override { write("cgroup.subtree_control", "cpu memory pids\n"); }

    /// A new group with the files that the kernel would make.
    [[nodiscard]] process::Cgroup web() const {
        process::Cgroup group = tree().make_group("web", 2).value();
        for (char const* const file : files)
            write(std::string("web-2/") + file, "as it was, and longer");
        write("web-2/cgroup.controllers", "cpu memory pids\n");
        return group;
    }

    void write(std::string const& file, std::string const& text) const {
        std::ofstream(directory_.path() + "/" + file) << text;
    }
    [[nodiscard]] std::string read(std::string const& file) const {
        return content_of(directory_.path() + "/web-2/" + file);
    }
    [[nodiscard]] process::CgroupTree tree() const { return process::CgroupTree::open(directory_.path()).value(); }

    Directory directory_;
};

/// A program may nest its groups deeper than any path is long.
TEST_F(Stage, NobodyHidesInTheDepth) {
    process::Cgroup const group = tree().make_group("deep", 1).value();
    std::string const name(250, 'x');
    UniqueFd here{::open(group.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    std::vector<UniqueFd> levels;
    for (int depth = 0; depth < 40; ++depth) {
        UniqueFd const file{::openat(here.get(), "cgroup.procs", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
        std::string const pid = std::to_string(1000 + depth) + "\n";
        ASSERT_EQ(::write(file.get(), pid.data(), pid.size()), static_cast<ssize_t>(pid.size()));
        ASSERT_EQ(::mkdirat(here.get(), name.c_str(), 0755), 0);
        UniqueFd next{::openat(here.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        levels.push_back(std::move(here));
        here = std::move(next);
    }
    // The last one has no such file, as one that is being removed.
    EXPECT_TRUE(group.contains(1000));
    EXPECT_TRUE(group.contains(1039));
    EXPECT_FALSE(group.contains(1040));
    for (UniqueFd const& level : levels)
        ASSERT_EQ(::unlinkat(level.get(), "cgroup.procs", 0), 0);
    EXPECT_EQ(text_of(group.remove()), "ok");
}

TEST_F(Stage, LimitsAreWrittenAsTheKernelReadsThem) {
    process::Cgroup group = web();
    EXPECT_EQ(text_of(group.set_limits({.memory_max = 64 << 20,
                                        .memory_high = process::unlimited,
                                        .memory_min = 4096,
                                        .swap_max = 0,
                                        .cpu_max = 1500,
                                        .cpu_weight = 250,
                                        .pids_max = 20})),
              "ok");
    EXPECT_EQ(read("memory.max"), "67108864");
    EXPECT_EQ(read("memory.high"), "max");
    EXPECT_EQ(read("memory.min"), "4096");
    EXPECT_EQ(read("memory.swap.max"), "0");
    EXPECT_EQ(read("cpu.max"), "150000 100000");
    EXPECT_EQ(read("cpu.weight"), "250");
    EXPECT_EQ(read("pids.max"), "20");
}

TEST_F(Stage, WhatIsNotGivenIsLeftOrPutBack) {
    process::Cgroup group = web();
    EXPECT_EQ(text_of(group.set_limits({.memory_max = 1 << 20, .cpu_max = 10, .cpu_weight = 1})), "ok");
    EXPECT_EQ(read("cpu.max"), "1000 100000");
    EXPECT_EQ(read("pids.max"), "as it was, and longer");
    EXPECT_EQ(text_of(group.set_limits({.pids_max = process::unlimited})), "ok");
    EXPECT_EQ(read("memory.max"), "max");
    EXPECT_EQ(read("cpu.max"), "max");
    EXPECT_EQ(read("cpu.weight"), "100");
    EXPECT_EQ(read("pids.max"), "max");
    EXPECT_EQ(read("memory.high"), "as it was, and longer");
}

TEST_F(Stage, AGroupThatWasThereHasNoOtherLimits) {
    EXPECT_EQ(text_of(web().set_limits({.memory_max = 1 << 20, .cpu_weight = 1})), "ok");
    ASSERT_EQ(::unlink((directory_.path() + "/web-2/memory.swap.max").c_str()), 0);
    process::Cgroup again = tree().make_group("web", 2).value();
    EXPECT_EQ(read("memory.max"), "1048576") << "what runs there keeps it until somebody says";
    EXPECT_EQ(text_of(again.set_limits({.pids_max = 7})), "ok");
    EXPECT_EQ(read("memory.max"), "max");
    EXPECT_EQ(read("memory.min"), "0");
    EXPECT_EQ(read("cpu.weight"), "100");
    EXPECT_EQ(read("pids.max"), "7");
    write("web-2/cpu.max", "5000 100000");
    EXPECT_EQ(text_of(again.set_limits({.pids_max = 7})), "ok");
    EXPECT_EQ(read("cpu.max"), "5000 100000") << "once";
}

TEST_F(Stage, AKernelWithoutALimitRefusesItAtOnce) {
    ASSERT_EQ(::mkdir((directory_.path() + "/launcher").c_str(), 0755), 0);
    for (char const* const file : files) {
        if (std::string_view(file) != "memory.swap.max") write(std::string("launcher/") + file, "max");
    }
    EXPECT_EQ(text_of(tree().check({.memory_max = 1, .cpu_max = 1, .pids_max = 1})), "ok");
    EXPECT_EQ(text_of(tree().check({.swap_max = 0})),
              "this kernel has no memory.swap.max in " + directory_.path() + "/launcher");
}

TEST_F(Stage, CountersAreRead) {
    process::Cgroup const group = web();
    EXPECT_EQ(group.oom_kills(), std::nullopt);
    EXPECT_EQ(group.memory_current(), std::nullopt);
    write("web-2/memory.events", "low 0\nhigh 3\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n");
    write("web-2/memory.current", "123456\n");
    EXPECT_EQ(group.oom_kills(), 1U);
    EXPECT_EQ(group.memory_current(), 123456U);
    write("web-2/cgroup.events", "populated 1\nfrozen 0\n");
    EXPECT_EQ(group.is_populated(), true);
}

TEST_F(Stage, MissingControllersAreNamed) {
    write("cgroup.subtree_control", "pids\n");
    process::CgroupTree const tree = this->tree();
    EXPECT_THAT(tree.controllers(), ElementsAre("pids"));
    std::string const missing = " controller is not delegated to " + directory_.path();
    EXPECT_EQ(text_of(tree.check({.pids_max = 1})), "ok");
    EXPECT_EQ(text_of(tree.check({.memory_high = 1})), "the memory" + missing);
    EXPECT_EQ(text_of(tree.check({.swap_max = 1})), "the memory" + missing);
    EXPECT_EQ(text_of(tree.check({.cpu_max = 1000})), "the cpu" + missing);
    EXPECT_EQ(text_of(tree.check({.cpu_weight = 1})), "the cpu" + missing);

    process::Cgroup group = web();
    write("web-2/cgroup.controllers", "memory pids\n");
    for (char const* const file : {"cpu.max", "memory.swap.max"})
        ASSERT_EQ(::unlink((group.path() + "/" + file).c_str()), 0);
    EXPECT_EQ(text_of(group.set_limits({.cpu_max = 1000})), "the cpu" + missing);
    EXPECT_EQ(text_of(group.set_limits({.swap_max = 0})), "this kernel has no memory.swap.max in " + group.path());
}

TEST_F(Stage, GroupsAreNamedAfterProgramAndNumber) {
    EXPECT_EQ(tree().make_group("web", 3)->path(), directory_.path() + "/web-3");
    EXPECT_EQ(tree().make_group("", 4)->path(), directory_.path() + "/process-4");
    struct stat status;
    EXPECT_NE(::stat((directory_.path() + "/web-3").c_str(), &status), 0) << "dropped, but still there";
}

// The real thing. Each test runs in a process of its own that is PID 1 of its PID namespace, in a cgroup that it has
// made for itself and a cgroup namespace whose root that is. Nobody else is ever moved.

std::string mounted_at() {
    for (char const* const path : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
        struct statfs status;
        if (::statfs(path, &status) == 0 && status.f_type == 0x63677270 /* CGROUP2_SUPER_MAGIC */) return path;
    }
    return {};
}

/// In the namespaces. `test` gives what went wrong, nothing when all is well. The tree is mounted at /tmp there.
std::string in_own_cgroup(std::function<std::string()> const& test) {
    std::string const mount = mounted_at();
    std::string const path = mount + "/triton-test-" + std::to_string(::getpid());
    if (mount.empty() || ::mkdir(path.c_str(), 0755) != 0) return "skip";
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
    UniqueFd const read_end{ends[0]};
    UniqueFd write_end{ends[1]};
    auto const say = [&](std::string const& text) {
        (void)!::write(write_end.get(), text.data(), text.size());
        ::_exit(0);
    };
    pid_t const outer = ::fork();
    if (outer == 0) {
        if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::unshare(CLONE_NEWNS | CLONE_NEWPID) != 0)
            say("cannot unshare");
        pid_t const inner = ::fork();  // into the PID namespace
        if (inner == 0) {
            (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
            std::ofstream(path + "/cgroup.procs") << "0" << std::flush;
            if (::unshare(CLONE_NEWCGROUP) != 0) say("cannot unshare the cgroup namespace");
            (void)::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
            if (::mount("proc", "/proc", "proc", 0, nullptr) != 0) say("cannot mount /proc");
            if (::mount("none", "/tmp", "cgroup2", 0, nullptr) != 0) say("cannot mount a cgroup2 file system");
            say(test());
        }
        (void)::waitpid(inner, nullptr, 0);
        ::_exit(0);
    }
    write_end = UniqueFd{};
    std::string text = read_to_end(read_end.get());
    int status = -1;
    (void)::waitpid(outer, &status, 0);
    std::function<void(std::string const&)> const remove = [&](std::string const& group) {
        if (DIR* const directory = ::opendir(group.c_str())) {
            while (dirent const* const entry = ::readdir(directory)) {
                if (entry->d_type == DT_DIR && entry->d_name[0] != '.') remove(group + "/" + entry->d_name);
            }
            ::closedir(directory);
        }
        (void)::rmdir(group.c_str());
    };
    remove(path);
    return text;
}

#define IN_OWN_CGROUP(test)                                                                       \
    SKIP_UNLESS_ROOT();                                                                           \
    std::string const text = in_own_cgroup(test);                                                 \
    if (text == "skip") GTEST_SKIP() << "needs a writable cgroup v2 at /sys/fs/cgroup[/unified]"; \
    EXPECT_EQ(text, "")

/// Waits, with a deadline, until cgroup.events has this line; the kernel tells of its changes.
bool waits_for(process::Cgroup const& group, std::string_view line) {
    UniqueFd const events{::open((group.path() + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC)};
    for (int i = 0; i < 10; ++i) {
        char bytes[256];
        ssize_t const size = ::pread(events.get(), bytes, sizeof bytes, 0);
        if (size > 0 && std::string_view(bytes, static_cast<std::size_t>(size)).find(line) != std::string_view::npos)
            return true;
        pollfd change{events.get(), POLLPRI, 0};
        if (::poll(&change, 1, 10'000) != 1) return false;
    }
    return false;
}

bool waits_until_empty(process::Cgroup const& group) { return waits_for(group, "populated 0"); }

/// Starts a shell with a child in `group`; both are there when this returns.
pid_t start_two_in(process::Spawner& spawner, process::Cgroup const& group) {
    UniqueFd const directory = group.directory().value();
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return -1;
    UniqueFd const read_end{ends[0]};
    UniqueFd write_end{ends[1]};
    // tail ends by itself when the reader of its output has gone.
    auto const plan = plan_of(
        "/bin/sh", {"-c", "setsid tail -f /dev/null >/dev/null & echo ready; exec tail -f /dev/null >/dev/null"});
    auto const pid =
        spawner.spawn(plan, process::ProcessNumber{1}, {.out = write_end.get(), .cgroup = directory.get()});
    char ready[8];
    return pid && ::read(read_end.get(), ready, sizeof ready) == 6 ? static_cast<pid_t>(*pid) : -1;
}

TEST(CgroupTree, MovesUsIntoALeafAndProcessesIntoGroups) {
    IN_OWN_CGROUP([]() -> std::string {
        auto const tree = process::CgroupTree::create();
        if (!tree) return tree.error().text();
        if (tree->path() != "/tmp") return "the tree is at " + tree->path();
        if (content_of("/proc/self/cgroup").find("0::/launcher\n") == std::string::npos)
            return "we are in " + content_of("/proc/self/cgroup");
        process::Cgroup const group = tree->make_group("web", 1).value();
        UniqueFd const directory = group.directory().value();
        Outcome const outcome = run(plan_of("/bin/grep", {"^0::", "/proc/self/cgroup"}), {.cgroup = directory.get()});
        if (outcome.output != "0::/web-1\n") return "the child is in " + outcome.output;
        return {};
    });
}

TEST(CgroupTree, WithoutClone3TheChildMovesItself) {
    IN_OWN_CGROUP([]() -> std::string {
        auto const tree = process::CgroupTree::create();
        if (!tree) return tree.error().text();
        json::Where const at;
        auto const filter =
            process::SeccompFilter::create({.profile = process::SeccompProfile::none, .deny = {"clone3"}}, at);
        sock_fprog const program = filter->program();
        if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
            return "cannot install the filter";
        process::Cgroup const group = tree->make_group("web", 1).value();
        UniqueFd const directory = group.directory().value();
        Outcome const outcome = run(plan_of("/bin/grep", {"^0::", "/proc/self/cgroup"}), {.cgroup = directory.get()});
        return outcome.output == "0::/web-1\n" ? "" : "the child is in " + outcome.output;
    });
}

TEST(CgroupTree, KillReachesAllAndNobodyElse) {
    IN_OWN_CGROUP([]() -> std::string {
        auto const tree = process::CgroupTree::create();
        if (!tree) return tree.error().text();
        process::Cgroup group = tree->make_group("web", 1).value();
        process::Spawner spawner({}, 0);
        pid_t const pid = start_two_in(spawner, group);
        if (pid < 0) return "cannot start";
        if (!group.contains(pid)) return "the group does not have its process";
        if (group.contains(::getpid())) return "the group has us";
        if (group.is_populated() != true) return "the group is empty";
        if (group.remove()) return "a group with processes was removed";
        if (auto const killed = group.kill(); !killed) return killed.error().text();
        int status = -1;
        (void)::waitpid(pid, &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return "status " + std::to_string(status);
        if (!waits_until_empty(group)) return "somebody is left";
        if (auto const removed = group.remove(); !removed) return removed.error().text();
        return {};
    });
}

/// Directories that play a tree of Linux before 5.2.
TEST(CgroupTree, KillsWhatCannotBeFrozen) {
    char name[] = "/tmp/triton-cgroup.XXXXXX";
    std::string const top = ::mkdtemp(name);
    std::ofstream(top + "/cgroup.subtree_control").put('\n');
    auto const tree = process::CgroupTree::open(top);
    ASSERT_TRUE(tree) << tree.error().text();
    pid_t const pid = ::fork();
    if (pid == 0) {
        for (;;)
            ::pause();
    }
    {
        process::Cgroup const group = tree->make_group("web", 1).value();
        std::ofstream(group.path() + "/cgroup.procs") << pid << '\n';
        Result<> const killed = group.kill();
        EXPECT_TRUE(killed) << killed.error().text();
    }
    (void)::kill(pid, SIGTERM);  // comes too late
    int status = -1;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, SIGKILL);
    std::filesystem::remove_all(top);
}

TEST(CgroupTree, TheGroupCanBeUsedAfterAKill) {
    IN_OWN_CGROUP([]() -> std::string {
        auto const tree = process::CgroupTree::create();
        if (!tree) return tree.error().text();
        process::Cgroup const group = tree->make_group("web", 1).value();
        UniqueFd const directory = group.directory().value();
        process::Spawner spawner({}, 0);
        pid_t const pid = start_two_in(spawner, group);
        if (pid < 0) return "cannot start";
        if (auto const killed = group.kill(); !killed) return killed.error().text();
        (void)::waitpid(pid, nullptr, 0);
        if (!waits_until_empty(group)) return "somebody is left";
        return run(plan_of("/bin/true", {}), {.cgroup = directory.get()}).is_ok() ? "" : "the next one was killed too";
    });
}

TEST(CgroupTree, SignalsFreezesAndThaws) {
    IN_OWN_CGROUP([]() -> std::string {
        auto const tree = process::CgroupTree::create();
        if (!tree) return tree.error().text();
        process::Cgroup group = tree->make_group("web", 1).value();
        process::Spawner spawner({}, 0);
        pid_t const pid = start_two_in(spawner, group);
        if (pid < 0) return "cannot start";
        if (auto const frozen = group.freeze(true); !frozen) return frozen.error().text();
        if (!waits_for(group, "frozen 1")) return "it does not freeze";
        if (auto const thawed = group.freeze(false); !thawed) return thawed.error().text();
        if (!waits_for(group, "frozen 0")) return "it does not thaw";
        if (auto const sent = group.signal(0, ::getpid()); !sent || sent->has_leader) return "we are in the group";
        auto const sent = group.signal(SIGTERM, pid);
        if (!sent) return sent.error().text();
        if (!sent->has_leader) return "its process is not in the group";
        if (sent->refused.count != 0) return "one of them was refused";
        int status = -1;
        (void)::waitpid(pid, &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM) return "status " + std::to_string(status);
        return waits_until_empty(group) ? "" : "the signal has not reached all";
    });
}

TEST(CgroupTree, WhatTheProgramMadeBelowIsKilledAndRemovedToo) {
    IN_OWN_CGROUP([]() -> std::string {
        auto const tree = process::CgroupTree::create();
        if (!tree) return tree.error().text();
        std::string path;
        {
            process::Cgroup group = tree->make_group("", 1).value();
            path = group.path();
            process::Spawner spawner({}, 0);
            UniqueFd const directory = group.directory().value();
            Outcome const outcome = run(spawner,
                                        plan_of("/bin/sh", {"-c",
                                                            "mkdir /tmp/process-1/sub; "
                                                            "tail -f /dev/null >/dev/null & "
                                                            "echo $! > /tmp/process-1/sub/cgroup.procs; echo $!"}),
                                        {.cgroup = directory.get()});
            if (!outcome.is_ok()) return "the program failed: " + outcome.output;
            if (!group.contains(std::stoi(outcome.output))) return "a process below is not found";
            if (auto const killed = group.kill(); !killed) return killed.error().text();
            if (!waits_until_empty(group)) return "somebody is left";
        }
        return ::access(path.c_str(), F_OK) == 0 ? "the group is left" : "";
    });
}

TEST(CgroupTree, ASharedCgroupIsNotTouched) {
    IN_OWN_CGROUP([]() -> std::string {
        pid_t const other = ::fork();
        if (other == 0) {
            for (;;)
                ::pause();
        }
        auto const tree = process::CgroupTree::create();
        (void)::kill(other, SIGKILL);
        (void)::waitpid(other, nullptr, 0);
        if (tree) return "it was taken";
        if (tree.error().text() != "cgroup /tmp is shared with process " + std::to_string(other))
            return tree.error().text();
        return ::access("/tmp/launcher", F_OK) == 0 ? "a group was made" : "";
    });
}

TEST(CgroupTree, AReadOnlyOneIsNotOurs) {
    IN_OWN_CGROUP([]() -> std::string {
        if (::mount("none", "/tmp", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) return "cannot remount";
        auto const tree = process::CgroupTree::create();
        if (tree) return "it was taken";
        return tree.error().text() == "cannot write cgroup /tmp: Read-only file system" ? "" : tree.error().text();
    });
}

}  // namespace

}  // namespace triton::launcher
