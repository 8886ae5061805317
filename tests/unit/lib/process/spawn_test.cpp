#include "lib/process/spawn.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "launcher/plan/program_attributes.h"
#include "tests/unit/lib/process/spawn_subject.h"

namespace triton::launcher {

namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

process::Identity const nobody{65534, 65533, {{65531, 65532}}};

std::string failure(Outcome const& outcome) {
    if (!outcome.error) return "no failure, status " + std::to_string(outcome.status) + ": " + outcome.output;
    return process::stage_text(outcome.error->stage) + ": " + errno_text(outcome.error->code);
}

UniqueFd file_with(std::string const& text) {
    UniqueFd file{::memfd_create("content", MFD_CLOEXEC)};
    (void)!::write(file.get(), text.data(), text.size());
    (void)::lseek(file.get(), 0, SEEK_SET);
    return file;
}

std::string content_of(std::string const& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

// What every child gets.

TEST(Spawn, AGroupOfItsOwnAndOurMaskBack) {
    process::raw::SignalSet const mask = process::raw::bit(SIGUSR2) | process::raw::bit(40);
    process::Spawner spawner({.mask = mask}, 0);
    Outcome const outcome = run(spawner, plan_of("/bin/sh", {"-c", "read a < /proc/$$/stat; set -- $a; echo $1 $5"}));
    std::string const pid = std::to_string(outcome.pid);
    EXPECT_EQ(outcome.output, pid + " " + pid + "\n");
    EXPECT_TRUE(outcome.is_ok());
    EXPECT_EQ(run(spawner, plan_of("/bin/grep", {"SigBlk", "/proc/self/status"})).output,
              "SigBlk:\t0000008000000800\n");
}

TEST(Spawn, SigchldIsIgnoredAgainWhereItWas) {
    process::Inherited inherited;
    inherited.sigchld.handler = SIG_IGN;
    inherited.sigchld_was_ignored = true;
    process::Spawner spawner(inherited, 0);
    // Not by a shell, which would put it right.
    Outcome const outcome = run(spawner, plan_of("/bin/grep", {"SigIgn", "/proc/self/status"}));
    EXPECT_EQ(outcome.output, "SigIgn:\t0000000000010000\n");
}

/// The way that a shell starts what it puts in the background.
TEST(Spawn, IgnoredSignalsStayIgnoredUnlessThePlanSaysOtherwise) {
    constexpr int ignored[] = {SIGINT, SIGQUIT, SIGPIPE, 64};
    process::Inherited inherited;
    inherited.sigchld.handler = SIG_IGN;
    inherited.sigchld_was_ignored = true;
    struct sigaction before[std::size(ignored)];
    for (std::size_t i = 0; i < std::size(ignored); ++i) {
        struct sigaction ignore = {};
        ignore.sa_handler = SIG_IGN;
        ASSERT_EQ(::sigaction(ignored[i], &ignore, &before[i]), 0);
        inherited.ignored |= process::raw::bit(ignored[i]);
    }
    process::Spawner spawner(inherited, 0);
    std::vector<std::string> const command{"SigIgn", "/proc/self/status"};
    EXPECT_EQ(run(spawner, plan_of("/bin/grep", command)).output, "SigIgn:\t8000000000011006\n");
    EXPECT_EQ(run(spawner, plan_of("/bin/grep", command, {.has_default_signals = true})).output,
              "SigIgn:\t0000000000000000\n");
    for (std::size_t i = 0; i < std::size(ignored); ++i)
        ::sigaction(ignored[i], &before[i], nullptr);
}

TEST(Spawn, ArgvZeroIsThePathOrTheName) {
    auto const named = std::make_shared<process::StartPlan const>(
        "/bin/cat", std::vector<std::string>{}, literals({"/proc/self/cmdline"}), process::NumberedParts{},
        process::Attributes{}, "mouse");
    EXPECT_EQ(run(named).output, std::string("mouse\0/proc/self/cmdline\0", 25));
    EXPECT_EQ(run(plan_of("/bin/cat", {"/proc/self/cmdline"})).output,
              std::string("/bin/cat\0/proc/self/cmdline\0", 28));
}

TEST(Spawn, NothingButStandardDescriptorsIsLeft) {
    close_on_exec_for_all();
    UniqueFd const other = file_with("not for children");
    // ls has one open on the directory
    EXPECT_EQ(run_shell("ls /proc/self/fd").output, "0\n1\n2\n3\n");
    EXPECT_EQ(run_shell("ls /proc/self/fd", {.identity = is_root() ? nobody : process::Identity{}}).output,
              "0\n1\n2\n3\n");
}

TEST(Spawn, ManyAtOnceInBothWays) {
    process::Spawner spawner({}, 0);
    for (bool const is_copy : {false, true}) {
        process::Attributes attributes;
        if (is_copy) attributes.oom_score_adj = 500;
        auto const good = plan_of("/bin/true", {}, std::move(attributes));
        auto const bad = plan_of("/nonexistent", {});
        std::vector<std::pair<process::Pid, bool>> children;
        for (int i = 0; i < 200; ++i) {
            bool const fails = i % 3 == 0;
            auto const pid = spawner.spawn(fails ? bad : good, process::ProcessNumber{1});
            ASSERT_TRUE(pid);
            children.emplace_back(*pid, fails);
        }
        std::ranges::shuffle(children, std::minstd_rand(1));
        for (auto const& [pid, fails] : children) {
            int status = -1;
            ASSERT_EQ(::waitpid(static_cast<pid_t>(pid), &status, 0), static_cast<pid_t>(pid));
            EXPECT_EQ(status, fails ? 127 << 8 : 0);
            EXPECT_EQ(spawner.take_error(pid),
                      fails ? std::optional(process::SpawnError{process::SpawnStage::execute, ENOENT}) : std::nullopt);
            EXPECT_EQ(spawner.take_error(pid), std::nullopt);
        }
    }
    spawner.trim();
}

// The environment.

TEST(SpawnEnvironment, IsThePlansOwn) {
    Outcome const outcome = run(plan_of("/usr/bin/env", {}, {}, {"B=2", "A=1"}));
    EXPECT_EQ(outcome.output, "B=2\nA=1\n");
}

TEST(SpawnEnvironment, TemplatesAreRenderedForEachProcess) {
    config::ProcessConfiguration numbered;
    numbered.arguments = {
        {.type = config::ArgumentType::concatenate,
         .values = {{.value = "PORT="},
                    {.type = config::ArgumentType::process_number, .multiplier = 10, .offset = 4500}}}};
    std::vector<process::CommandTemplate> templates;
    templates.push_back(config::substitute(numbered, config::Variables{{}, nullptr}, 9).value());
    templates.push_back(literals({"X=1", "Y=2"}));
    auto const plan =
        std::make_shared<process::StartPlan const>("/usr/bin/env", std::vector<std::string>{"A=1"}, literals({}),
                                                   process::NumberedParts{.environment = std::move(templates)});
    process::Spawner spawner({}, 0);
    EXPECT_EQ(run(spawner, plan, {}, process::ProcessNumber{1}).output, "A=1\nPORT=4510\nX=1\nY=2\n");
    EXPECT_EQ(run(spawner, plan, {}, process::ProcessNumber{9}).output, "A=1\nPORT=4590\nX=1\nY=2\n");
}

TEST(SpawnEnvironment, MayBeAnotherOneForEachProcess) {
    process::Attributes attributes;
    attributes.watchdog_microseconds = 5;
    std::vector<process::SharedEnvironment> environments;
    for (char const* const own : {"A=1", "A=2"})
        environments.emplace_back(std::vector<std::string>{own, "WATCHDOG_USEC=1"});
    auto const plan = std::make_shared<process::StartPlan const>(
        "/usr/bin/env", std::vector<std::string>{"A=none"}, literals({}),
        process::NumberedParts{.environments = std::move(environments)}, std::move(attributes));
    process::Spawner spawner({}, 0);
    for (auto const& [number, value] : {std::pair{1U, "1"}, {2U, "2"}, {3U, "2"}}) {
        Outcome const outcome = run(spawner, plan, {}, process::ProcessNumber{number});
        EXPECT_EQ(outcome.output,
                  std::string("A=") + value + "\nWATCHDOG_USEC=5\nWATCHDOG_PID=" + std::to_string(outcome.pid) + "\n");
    }
}

TEST(SpawnDirectory, MayBeAnotherOneForEachProcess) {
    std::string base = "/tmp/spawn-directory.XXXXXX";
    ASSERT_TRUE(::mkdtemp(base.data()));
    auto const own = [&](std::string const& number) { return base + "/" + number; };
    for (char const* const number : {"1", "2"})
        ASSERT_EQ(::mkdir(own(number).c_str(), 0755), 0);
    config::Argument const path{.type = config::ArgumentType::concatenate,
                                .values = {{.value = base + "/"}, {.type = config::ArgumentType::process_number}}};
    for (bool const is_copy : {false, true}) {
        process::Attributes attributes;
        attributes.working_directory = own("1");
        if (is_copy) attributes.oom_score_adj = 500;
        auto const plan = std::make_shared<process::StartPlan const>(
            "/bin/pwd", std::vector<std::string>{}, literals({}),
            process::NumberedParts{.directory = config::numbered_path(path)}, std::move(attributes));
        process::Spawner spawner({}, 0);
        EXPECT_EQ(run(spawner, plan, {}, process::ProcessNumber{1}).output, own("1") + "\n");
        EXPECT_EQ(run(spawner, plan, {}, process::ProcessNumber{2}).output, own("2") + "\n");
        Outcome const failed = run(spawner, plan, {}, process::ProcessNumber{3});
        ASSERT_TRUE(failed.error);
        EXPECT_EQ(process::stage_text(failed.error->stage, plan.get(), process::ProcessNumber{3}),
                  "enter the working directory " + own("3"));
    }
    for (char const* const number : {"1", "2"})
        ASSERT_EQ(::rmdir(own(number).c_str()), 0);
    ASSERT_EQ(::rmdir(base.c_str()), 0);
}

TEST(SpawnEnvironment, ProtocolsSpeakOfTheChild) {
    UniqueFd const first = file_with("first");
    UniqueFd const second = file_with("second");
    std::array const listen{first.get(), second.get()};
    for (bool const is_copy : {false, true}) {
        process::Attributes attributes;
        attributes.listen_names = {"web", "admin"};
        attributes.watchdog_microseconds = 2'500'000;
        if (is_copy) attributes.oom_score_adj = 500;
        auto const plan = plan_of("/usr/bin/env", {}, std::move(attributes),
                                  {"LISTEN_FDS=9", "LISTEN_PID=1", "A=1", "WATCHDOG_PID=1", "WATCHDOG_USEC=1"});
        Outcome const outcome = run(plan, {.listen = listen, .notify_socket = "/run/notify"});
        std::string const pid = std::to_string(outcome.pid);
        EXPECT_EQ(outcome.output, "A=1\nLISTEN_FDS=2\nLISTEN_FDNAMES=web:admin\nWATCHDOG_USEC=2500000\nLISTEN_PID=" +
                                      pid + "\nWATCHDOG_PID=" + pid + "\nNOTIFY_SOCKET=/run/notify\n");
    }
}

// Descriptors.

TEST(SpawnDescriptors, StandardOnesCanBeReplaced) {
    UniqueFd const in = file_with("from a file\n");
    UniqueFd const err = file_with("");
    Outcome const outcome = run_shell("cat; echo wrong >&2", {}, {.in = in.get(), .err = err.get()});
    EXPECT_EQ(outcome.output, "from a file\n");
    (void)::lseek(err.get(), 0, SEEK_SET);
    EXPECT_EQ(read_to_end(err.get()), "wrong\n");
}

TEST(SpawnDescriptors, AnyNumberMayGoToAnyOther) {
    close_on_exec_for_all();
    constexpr std::size_t count = 6;  // they stand on and around the numbers they go to
    std::array<UniqueFd, count> files;
    std::array<std::size_t, count> order;
    for (std::size_t i = 0; i < count; ++i) {
        files[i] = UniqueFd{::memfd_create("content", MFD_CLOEXEC)};
        std::string const text = std::to_string(i);
        ASSERT_EQ(::pwrite(files[i].get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
        order[i] = i;
    }
    std::minstd_rand random(7);
    process::Spawner spawner({}, 0);
    for (int round = 0; round < 40; ++round) {
        std::ranges::shuffle(order, random);
        process::Attributes attributes;
        attributes.listen_names = {"a", "b", "c", "d"};
        attributes.ready_target = 8;
        auto const plan = plan_of(
            "/bin/sh", {"-c", "for i in 0 3 4 5 6 8; do head -c1 /proc/self/fd/$i; done; exec ls /proc/self/fd"},
            std::move(attributes));
        std::array<int, 4> listen;
        for (std::size_t i = 0; i < 4; ++i)
            listen[i] = files[order[i]].get();
        Outcome const outcome =
            run(spawner, plan, {.in = files[order[4]].get(), .listen = listen, .ready = files[order[5]].get()});
        std::string expected;
        for (std::size_t const at : {4, 0, 1, 2, 3, 5})
            expected += std::to_string(order[at]);
        // 7 is what ls itself opens: the lowest that is free
        EXPECT_EQ(outcome.output, expected + "0\n1\n2\n3\n4\n5\n6\n7\n8\n") << "round " << round;
    }
}

TEST(SpawnDescriptors, ALowLimitDoesNotHinderThem) {
    UniqueFd const file = file_with("passed");
    std::array const listen{file.get()};
    process::Attributes attributes;
    attributes.listen_names = {"a"};
    attributes.limits = {{RLIMIT_NOFILE, 4, 4}};
    attributes.oom_score_adj = 500;
    auto const plan = plan_of(CALL_PROGRAM, {std::to_string(SYS_read), "3", "@16", "16"}, std::move(attributes));
    EXPECT_EQ(run(plan, {.listen = listen}).output, "6\npassed");
}

// Attributes.

TEST(SpawnAttributes, Identity) {
    SKIP_UNLESS_ROOT();
    Outcome const outcome = run_shell("grep -E '^(Uid|Gid|Groups)' /proc/self/status", {.identity = nobody});
    EXPECT_EQ(outcome.output,
              "Uid:\t65534\t65534\t65534\t65534\nGid:\t65533\t65533\t65533\t65533\nGroups:\t65531 65532 \n");
    EXPECT_EQ(status_line("CapEff", {.identity = nobody}), "0000000000000000");
    EXPECT_EQ(status_line("Groups", {.identity = {.supplementary_groups = {{}}}}), " ");
}

TEST(SpawnAttributes, AnotherUserLeavesUsAsWeAre) {
    SKIP_UNLESS_ROOT();
    ASSERT_EQ(::prctl(PR_SET_DUMPABLE, 1), 0);  // a test before this one may have spoiled it
    ASSERT_TRUE(run_shell("true", {.identity = nobody}).is_ok());
    EXPECT_EQ(::prctl(PR_GET_DUMPABLE), 1);
}

TEST(SpawnAttributes, OomScoreIsTheChildsOnly) {
    std::string const before = content_of("/proc/self/oom_score_adj");
    EXPECT_EQ(run_shell("cat /proc/self/oom_score_adj", {.oom_score_adj = 777}).output, "777\n");
    EXPECT_EQ(content_of("/proc/self/oom_score_adj"), before);
}

TEST(SpawnAttributes, Limits) {
    process::Attributes attributes;
    attributes.limits = {{RLIMIT_NOFILE, 77, 88}, {RLIMIT_CORE, 0, 0}, {RLIMIT_FSIZE, 4096, 8192}};
    Outcome const outcome = run(plan_of("/bin/cat", {"/proc/self/limits"}, std::move(attributes)));
    EXPECT_THAT(outcome.output, AllOf(testing::ContainsRegex("Max open files +77 +88"),
                                      testing::ContainsRegex("Max core file size +0 +0"),
                                      testing::ContainsRegex("Max file size +4096 +8192")));
}

TEST(SpawnAttributes, NiceAffinityAndUmask) {
    EXPECT_EQ(run_shell("nice", {.nice = 7}).output, "7\n");
    EXPECT_EQ(status_line("Umask", {.umask = 027}), "0027");
    EXPECT_EQ(status_line("Umask", {.umask = 0}), "0000");
    cpu_set_t ours;
    ASSERT_EQ(::sched_getaffinity(0, sizeof ours, &ours), 0);
    std::uint32_t last = 0;
    for (std::uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        last = CPU_ISSET(cpu, &ours) ? cpu : last;
    EXPECT_EQ(status_line("Cpus_allowed_list", {.cpu_affinity = {last}}), std::to_string(last));
}

TEST(SpawnAttributes, WorkingDirectoryAndRelativeProgram) {
    EXPECT_EQ(run_shell("pwd", {.working_directory = "/usr/lib"}).output, "/usr/lib\n");
    EXPECT_EQ(run(plan_of("./pwd", {}, {.working_directory = "/usr/bin"})).output, "/usr/bin\n");
}

TEST(SpawnAttributes, RootDirectory) {
    SKIP_UNLESS_ROOT();
    Directory const root;
    ASSERT_EQ(std::system(("cp '" CALL_PROGRAM "' " + root.path() + "/call; mkdir " + root.path() + "/sub").c_str()),
              0);
    std::vector<std::string> const cwd{std::to_string(SYS_getcwd), "@64", "64"};
    EXPECT_EQ(run(plan_of("/call", cwd, {.root_directory = root.path()})).output, "2\n/");
    EXPECT_EQ(run(plan_of("../call", cwd, {.root_directory = root.path(), .working_directory = "/sub"})).output,
              "5\n/sub");
    EXPECT_EQ(run(plan_of("call", cwd, {.root_directory = root.path(), .identity = nobody})).output, "2\n/");
}

TEST(SpawnAttributes, NoNewPrivileges) {
    EXPECT_EQ(status_line("NoNewPrivs"), "0");
    EXPECT_EQ(status_line("NoNewPrivs", {.no_new_privileges = true}), "1");
}

TEST(SpawnAttributes, Capabilities) {
    SKIP_UNLESS_ROOT();
    process::OwnCapabilities const own = process::OwnCapabilities::read();
    constexpr process::CapabilitySet net_bind = 1 << 10;
    constexpr process::CapabilitySet chown = 1;
    auto const with = [&](process::CapabilityMasks const& masks, bool is_other) {
        process::Attributes attributes;
        attributes.capabilities = masks;
        if (is_other) attributes.identity = nobody;
        return run_shell("grep ^Cap /proc/self/status | cut -f2 | sed 's/^0*\\(.\\)/\\1/' | tr '\\n' ' '",
                         std::move(attributes))
            .output;
    };
    // Inh Prm Eff Bnd Amb
    EXPECT_EQ(with({own.bounding, 0, 0}, false), "0 0 0 0 0 ");
    EXPECT_EQ(with({own.bounding & ~(net_bind | chown), 0, 0}, false), "0 401 401 401 0 ");
    EXPECT_EQ(with({own.bounding & ~(net_bind | chown), net_bind, net_bind}, true), "400 400 400 401 400 ");
    EXPECT_EQ(with({own.bounding & ~(net_bind | chown), chown, 0}, true), "1 0 0 401 0 ");
}

TEST(SpawnAttributes, ParentDeathSignalOutlivesTheChangeOfUser) {
    SKIP_UNLESS_ROOT();
    int ends[2] = {-1, -1};
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    UniqueFd const read_end{ends[0]};
    UniqueFd write_end{ends[1]};
    pid_t const parent = ::fork();
    if (parent == 0) {
        process::Spawner spawner({}, SIGTERM);
        // It ends when it is asked to, but only by SIGKILL, the plan's own; cat holds the pipe as long as it lives.
        auto const plan = plan_of("/bin/sh", {"-c", "trap '' TERM; echo ready; exec /usr/bin/tail -f /dev/null"},
                                  {.identity = nobody, .parent_death_signal = SIGKILL});
        (void)spawner.spawn(plan, process::ProcessNumber{1}, {.out = write_end.get()});
        for (;;)
            ::pause();
    }
    write_end = UniqueFd{};
    char ready[8] = {};
    EXPECT_EQ(::read(read_end.get(), ready, sizeof ready), 6);
    EXPECT_EQ(::kill(parent, SIGKILL), 0);
    int status = -1;
    EXPECT_EQ(::waitpid(parent, &status, 0), parent);
    pollfd ended{read_end.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&ended, 1, 10'000), 1) << "it lives on";
    EXPECT_EQ(::read(read_end.get(), ready, sizeof ready), 0);
}

// Failures.

TEST(SpawnFailures, NameTheirStage) {
    UniqueFd const directory{::open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    auto const with = [](process::Attributes attributes, process::StartFiles const& files = {}) {
        return failure(run_shell("true", std::move(attributes), files));
    };
    EXPECT_EQ(with({}, {.cgroup = directory.get()}), "enter its cgroup: No such file or directory");
    EXPECT_EQ(with({}, {.in = 999'999}), "hand descriptors on: Bad file descriptor");
    EXPECT_EQ(with({.oom_score_adj = 5000}), "set the OOM score adjustment: Invalid argument");
    EXPECT_EQ(with({.limits = {{RLIMIT_NOFILE, 9, 8}}}), "set the resource limits: Invalid argument");
    EXPECT_EQ(with({.cpu_affinity = {8191}}), "set the CPU affinity: Invalid argument");
    EXPECT_EQ(with({.parent_death_signal = 99}), "set the parent death signal: Invalid argument");
    EXPECT_EQ(with({.working_directory = "/nonexistent"}), "enter the working directory: No such file or directory");
    EXPECT_EQ(failure(run(plan_of("/nonexistent", {}))), "execute: No such file or directory");
    EXPECT_EQ(failure(run(plan_of("/usr", {}))), "execute: Permission denied");
}

TEST(SpawnFailures, OfRoot) {
    SKIP_UNLESS_ROOT();
    EXPECT_EQ(failure(run_shell("true", {.root_directory = "/nonexistent"})),
              "enter the root directory: No such file or directory");
    Directory const closed;
    ASSERT_EQ(::chmod(closed.path().c_str(), 0700), 0);
    EXPECT_EQ(failure(run_shell("true", {.working_directory = closed.path(), .identity = nobody})),
              "enter the working directory: Permission denied");
}

TEST(SpawnFailures, OfALauncherWithoutPrivileges) {
    SKIP_UNLESS_ROOT();
    auto const with = [](auto attributes_of) {
        return as_nobody([&] { return failure(run_shell("true", attributes_of())); });
    };
    EXPECT_EQ(with([] { return process::Attributes{.nice = -5}; }), "set the nice value: Permission denied");
    EXPECT_EQ(with([] { return process::Attributes{.root_directory = "/usr"}; }),
              "enter the root directory: Operation not permitted");
    EXPECT_EQ(with([] { return process::Attributes{.identity = {.supplementary_groups = {{1}}}}; }),
              "set the supplementary groups: Operation not permitted");
    EXPECT_EQ(with([] { return process::Attributes{.identity = {.group = 1}}; }),
              "become group: Operation not permitted");
    EXPECT_EQ(with([] { return process::Attributes{.identity = {.user = 1}}; }),
              "become user: Operation not permitted");
    EXPECT_EQ(with([] { return process::Attributes{.capabilities = process::CapabilityMasks{1, 0, 0}}; }),
              "drop capabilities from the bounding set: Operation not permitted");
    EXPECT_EQ(with([] { return process::Attributes{.capabilities = process::CapabilityMasks{0, 1, 1}}; }),
              "set the capabilities: Operation not permitted");
    EXPECT_EQ(with([] {
                  json::Where const at;
                  process::Attributes attributes;
                  attributes.seccomp = process::SeccompFilter::create({}, at).value();  // without no_new_privs
                  return attributes;
              }),
              "install the seccomp filter: Permission denied");
    EXPECT_EQ(as_nobody([] {
                  rlimit const none{0, 0};
                  (void)::setrlimit(RLIMIT_NPROC, &none);
                  return failure(run_shell("true"));
              }),
              "clone: Resource temporarily unavailable");
}

TEST(SpawnFailures, TextsSayTheValues) {
    process::Attributes attributes;
    attributes.root_directory = "/srv/root";
    attributes.working_directory = "/srv/web";
    attributes.identity = {.user = 33, .group = 34};
    attributes.nice = -5;
    attributes.oom_score_adj = -900;
    auto const plan = plan_of("/bin/web", {}, std::move(attributes));
    auto const text = [&](process::SpawnStage stage) { return process::stage_text(stage, plan.get()); };
    EXPECT_EQ(text(process::SpawnStage::working_directory), "enter the working directory /srv/web");
    EXPECT_EQ(text(process::SpawnStage::root_directory), "enter the root directory /srv/root");
    EXPECT_EQ(text(process::SpawnStage::user), "become user 33");
    EXPECT_EQ(text(process::SpawnStage::group), "become group 34");
    EXPECT_EQ(text(process::SpawnStage::nice), "set the nice value -5");
    EXPECT_EQ(text(process::SpawnStage::oom_score), "set the OOM score adjustment -900");
    EXPECT_EQ(text(process::SpawnStage::execute), "execute /bin/web inside /srv/root");
    EXPECT_EQ(process::stage_text(process::SpawnStage::execute), "execute");
}

// The plan.

TEST(StartPlan, IsEqualWhenItStartsTheSame) {
    EXPECT_EQ(*plan_of("/bin/a", {"1"}, {.nice = 1}), *plan_of("/bin/a", {"1"}, {.nice = 1}));
    EXPECT_FALSE(*plan_of("/bin/a", {"1"}, {.nice = 1}) == *plan_of("/bin/a", {"1"}, {.nice = 2}));
    EXPECT_FALSE(*plan_of("/bin/a", {"1"}) == *plan_of("/bin/a", {"2"}));
    EXPECT_FALSE(*plan_of("/bin/a", {}, {}, {"A=1"}) == *plan_of("/bin/a", {}, {}, {"A=2"}));
    EXPECT_EQ(plan_of("/bin/a", {})->child_attributes(), nullptr);
    EXPECT_NE(plan_of("/bin/a", {}, {.umask = 0})->child_attributes(), nullptr);
}

TEST(StartPlan, ReadinessDescriptorMayNotBeASocket) {
    config::Program program;
    program.readiness = config::Readiness{.type = config::ReadinessType::fd, .fd = 4};
    program.sockets = std::vector<config::ListenSocket>(2);
    json::Where const at;
    auto const taken = launcher::resolve_attributes(program, at);
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error(), (json::Problems{{"readiness.fd", "4 is taken by the sockets, which are 3 to 4"}}));
    program.readiness->fd = 5;
    EXPECT_TRUE(launcher::resolve_attributes(program, at));
}

TEST(FindProgram, LooksAsExecvpDoes) {
    std::vector<std::string> const environment{"PATHS=/x", "PATH=/nonexistent:/usr/bin:/bin"};
    EXPECT_EQ(process::find_program("env", environment, {}), "/usr/bin/env");
    EXPECT_EQ(process::find_program("env", {}, {}), "/usr/bin/env");
    EXPECT_EQ(process::find_program("./env", environment, {.working_directory = "/usr/bin"}), "./env");
    EXPECT_EQ(process::find_program("bin/env", environment, {.root_directory = "/usr"}), "bin/env");
    EXPECT_EQ(process::find_program("env", {"PATH=/bin"}, {.root_directory = "/usr"}), "/bin/env");
    auto const text = [](Result<std::string> const& found) { return found ? "found " + *found : found.error().text(); };
    EXPECT_EQ(text(process::find_program("no-such-program", environment, {})),
              "cannot find \"no-such-program\" in PATH (/nonexistent:/usr/bin:/bin)");
    EXPECT_EQ(text(process::find_program("", environment, {})),
              "cannot find \"\" in PATH (/nonexistent:/usr/bin:/bin)");
    EXPECT_EQ(text(process::find_program("/nonexistent", {}, {})),
              "cannot execute /nonexistent: No such file or directory");
    EXPECT_EQ(text(process::find_program("/usr", {}, {})), "cannot execute /usr: is not a file");
    EXPECT_EQ(text(process::find_program("/etc/passwd", {}, {})), "cannot execute /etc/passwd: Permission denied");
    EXPECT_EQ(text(process::find_program("passwd", {"PATH=/etc:/nonexistent"}, {})),
              "cannot execute /etc/passwd: Permission denied");
    EXPECT_EQ(text(process::find_program("/usr/bin/env", {}, {.root_directory = "/usr"})),
              "cannot execute /usr/bin/env inside /usr: No such file or directory");
    EXPECT_EQ(text(process::find_program("env", {"PATH=/usr/bin"}, {.root_directory = "/usr"})),
              "cannot find \"env\" in PATH (/usr/bin) inside /usr");
}

}  // namespace

}  // namespace triton::launcher
