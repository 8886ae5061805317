#include "lib/process/start_trial.h"

#include <functional>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "launcher/plan/program_attributes.h"
#include "tests/unit/lib/process/spawn_subject.h"

namespace triton::launcher {

namespace {

using json::Where;
using test::as_nobody;

/// What is wrong with a program, one line each; "good" when nothing is.
std::string verdict(std::function<void(config::Program&)> const& edit) {
    config::Program program;
    edit(program);
    json::Where const document;
    json::Where const at{&document, std::string_view("web")};
    auto const resolved = launcher::resolve_attributes(program, at);
    if (resolved) return "good";
    std::string text;
    for (json::Problem const& problem : resolved.error())
        text += (text.empty() ? "" : "\n") + problem.text();
    return text;
}

std::string of_nobody(std::function<void(config::Program&)> const& edit) {
    return as_nobody([&] {
        // As after execve: the files of its children in /proc would be root's.
        (void)::prctl(PR_SET_DUMPABLE, 1);
        return verdict(edit);
    });
}

rlim_t hard_limit(int resource) {
    rlimit limit{};
    EXPECT_EQ(::getrlimit(static_cast<__rlimit_resource>(resource), &limit), 0);
    return limit.rlim_max;
}

TEST(StartTrial, FindsWhatIsNotThere) {
    EXPECT_EQ(verdict([](config::Program& web) { web.cpu_affinity = {8191}; }),
              "web.cpuAffinity: none of these CPUs exists and is allowed for the launcher");
    SKIP_UNLESS_ROOT();
    EXPECT_EQ(verdict([](config::Program& web) { web.root_directory = "/nonexistent"; }),
              "web.rootDirectory: cannot enter the root directory /nonexistent: No such file or directory");
}

TEST(StartTrial, MissesOnlyTheRightsThatAreNeeded) {
    SKIP_UNLESS_ROOT();
    EXPECT_EQ(of_nobody([](config::Program& web) { web.nice = -5; }),
              "web.nice: cannot set the nice value -5: Permission denied (it needs CAP_SYS_NICE)");
    EXPECT_EQ(of_nobody([](config::Program& web) { web.oom_score_adj = -900; }),
              "web.oomScoreAdj: cannot set the OOM score adjustment -900: Permission denied (it needs "
              "CAP_SYS_RESOURCE)");
    EXPECT_EQ(of_nobody([](config::Program& web) { web.root_directory = "/usr"; }),
              "web.rootDirectory: cannot enter the root directory /usr: Operation not permitted (it needs "
              "CAP_SYS_CHROOT)");
    EXPECT_EQ(of_nobody([](config::Program& web) { web.capabilities = process::CapabilitySettings{.bounding = {{}}}; }),
              "web.capabilities.bounding: cannot drop capabilities from the bounding set: Operation not permitted (it "
              "needs CAP_SETPCAP)");
    EXPECT_EQ(of_nobody([](config::Program& web) {
                  web.nice = 19;
                  web.oom_score_adj = 1000;
                  web.user = process::IdOrName(65534U);
                  web.group = process::IdOrName(65534U);
              }),
              "good");
}

TEST(StartTrial, NamesOneReasonForEachKey) {
    SKIP_UNLESS_ROOT();
    EXPECT_EQ(of_nobody([](config::Program& web) { web.user = process::IdOrName("root"); }),
              "web.user: cannot become user 0: Operation not permitted (it needs CAP_SETUID)");
    EXPECT_EQ(of_nobody([](config::Program& web) { web.group = process::IdOrName(4711U); }),
              "web.group: cannot become group 4711: Operation not permitted (it needs CAP_SETGID)");
    EXPECT_EQ(of_nobody([](config::Program& web) { web.supplementary_groups = {process::IdOrName(4711U)}; }),
              "web.supplementaryGroups: cannot set the supplementary groups: Operation not permitted (it needs "
              "CAP_SETGID)");
}

TEST(StartTrial, KnowsTheHardLimits) {
    SKIP_UNLESS_ROOT();
    rlim_t const most = hard_limit(RLIMIT_NOFILE);
    EXPECT_EQ(of_nobody([&](config::Program& web) { web.limits = {{RLIMIT_NOFILE, most, most}}; }), "good");
    EXPECT_EQ(of_nobody([&](config::Program& web) { web.limits = {{RLIMIT_NOFILE, 1, most + 1}}; }),
              "web.limits.nofile: cannot set the hard limit to " + std::to_string(most + 1) + ", the launcher's is " +
                  std::to_string(most) + ": Operation not permitted (it needs CAP_SYS_RESOURCE)");
}

TEST(StartTrial, LeavesUsAsWeAre) {
    SKIP_UNLESS_ROOT();
    rlim_t const cores = hard_limit(RLIMIT_CORE);
    int const priority = ::getpriority(PRIO_PROCESS, 0);
    EXPECT_EQ(verdict([&](config::Program& web) {
                  web.limits = {{RLIMIT_CORE, 0, 0}};
                  web.nice = 19;
                  web.root_directory = "/usr";
                  web.user = process::IdOrName(65534U);
                  web.group = process::IdOrName(65534U);
              }),
              "good");
    EXPECT_EQ(hard_limit(RLIMIT_CORE), cores);
    EXPECT_EQ(::getpriority(PRIO_PROCESS, 0), priority);
    EXPECT_EQ(::geteuid(), 0U);
    EXPECT_EQ(::access("/usr/bin/env", X_OK), 0);
    // Nothing is left to be reaped either, whatever signal its end sends.
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
    EXPECT_EQ(errno, ECHILD);
}

}  // namespace

}  // namespace triton::launcher
