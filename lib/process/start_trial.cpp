#include "lib/process/start_trial.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/process/capabilities.h"
#include "lib/process/raw_syscall.h"

namespace triton::process {

namespace {

using json::Problems;
using json::Where;

constexpr int patience_ms = 1000;  // for what takes a tenth of a second

template <class... Arguments>
int refusal(long number, Arguments... arguments) {
    raw::Value const result = raw::call(number, static_cast<long>(arguments)...);
    return result < 0 ? static_cast<int>(-result) : 0;
}

int write_oom_score(std::string const& text) {
    raw::Value const fd =
        raw::call(SYS_openat, AT_FDCWD, raw::address("/proc/self/oom_score_adj"), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return static_cast<int>(-fd);
    return refusal(SYS_write, fd, raw::address(text.data()), text.size());
}

/// Runs in the child, in the order of run_spawn_child(): each step may need what a later one gives up. The child has a
/// copy of our memory and makes only system calls.
void try_all(Attributes const& with, std::string const& oom_score, std::vector<unsigned long> const& cpus,
             Refusals& refused) {
    if (!oom_score.empty()) refused.oom_score = write_oom_score(oom_score);
    for (ResourceLimit const& limit : with.limits) {
        std::array<unsigned long, 2> const values{limit.soft, limit.hard};
        refused.limits[static_cast<std::size_t>(limit.resource)] =
            refusal(SYS_prlimit64, 0, limit.resource, raw::address(values.data()), 0);
    }
    if (with.nice) refused.nice = refusal(SYS_setpriority, PRIO_PROCESS, 0, *with.nice);
    if (!cpus.empty())
        refused.cpu_affinity =
            refusal(SYS_sched_setaffinity, 0, cpus.size() * sizeof(unsigned long), raw::address(cpus.data()));
    if (!with.root_directory.empty())
        refused.root_directory = refusal(SYS_chroot, raw::address(with.root_directory.c_str()));
    CapabilitySet const drop = with.capabilities ? with.capabilities->drop : 0;
    for (int number = 0; number < 64 && refused.bounding == 0; ++number) {
        if (drop >> number & 1) refused.bounding = refusal(SYS_prctl, PR_CAPBSET_DROP, number);
    }
    if (auto const& groups = with.identity.supplementary_groups)
        refused.groups = refusal(SYS_setgroups, groups->size(), raw::address(groups->data()));
    if (auto const& group = with.identity.group) refused.group = refusal(SYS_setresgid, *group, *group, *group);
    if (auto const& user = with.identity.user) refused.user = refusal(SYS_setresuid, *user, *user, *user);
}

bool has_something_to_try(Attributes const& with) {
    return with.oom_score_adj || !with.limits.empty() || with.nice || !with.cpu_affinity.empty() ||
           !with.root_directory.empty() || (with.capabilities && with.capabilities->drop != 0) ||
           with.identity != Identity{};
}

/// The attributes that a trial needs, without the rest: so programs that differ only there share a trial.
Attributes what_is_tried(Attributes const& with) {
    Attributes tried;
    tried.oom_score_adj = with.oom_score_adj;
    tried.limits = with.limits;
    tried.nice = with.nice;
    tried.cpu_affinity = with.cpu_affinity;
    tried.root_directory = with.root_directory;
    if (with.capabilities) tried.capabilities = CapabilityMasks{.drop = with.capabilities->drop};
    tried.identity = with.identity;
    return tried;
}

/// Whether the child of this pidfd has ended or ends soon. Without a pidfd (Linux before 5.2) we wait for its end.
bool ends_soon(int pidfd) {
    pollfd end{pidfd, POLLIN, 0};
    int ready = 0;
    do {
        ready = ::poll(&end, 1, patience_ms);
    } while (ready < 0 && errno == EINTR);
    return ready != 0;
}

/// Runs a trial. The child's end sends no signal, so nobody takes it for a process of a program. A child that hangs is
/// killed: somebody may have stopped it, or the file system of its root directory does not answer. If that does not
/// help, it is left behind.
void run_trial(Attributes const& with, Refusals& refused) {  // in memory that both sides see
    std::string const oom_score = with.oom_score_adj ? std::to_string(*with.oom_score_adj) : std::string();
    std::vector<unsigned long> const cpus = cpu_mask(with.cpu_affinity);
    int pidfd = -1;
    raw::Value const child = raw::call(SYS_clone, CLONE_PIDFD, 0, raw::address(&pidfd));
    if (child == 0) {
        try_all(with, oom_score, cpus, refused);
        for (;;)
            (void)raw::call(SYS_exit_group, 0);
    }
    if (child < 0) return;
    UniqueFd const end{pidfd};
    if (end && !ends_soon(end.get())) {
        (void)::kill(static_cast<pid_t>(child), SIGKILL);
        if (!ends_soon(end.get())) return;
    }
    while (::waitpid(static_cast<pid_t>(child), nullptr, __WALL) < 0 && errno == EINTR) {
    }
}

std::string_view limit_name(int resource) {
    constexpr std::pair<int, std::string_view> names[] = {
        {RLIMIT_NOFILE, "nofile"},     {RLIMIT_NPROC, "nproc"},
        {RLIMIT_CORE, "core"},         {RLIMIT_AS, "as"},
        {RLIMIT_CPU, "cpu"},           {RLIMIT_DATA, "data"},
        {RLIMIT_FSIZE, "fsize"},       {RLIMIT_MEMLOCK, "memlock"},
        {RLIMIT_MSGQUEUE, "msgqueue"}, {RLIMIT_NICE, "nice"},
        {RLIMIT_RSS, "rss"},           {RLIMIT_RTPRIO, "rtprio"},
        {RLIMIT_RTTIME, "rttime"},     {RLIMIT_STACK, "stack"},
        {RLIMIT_LOCKS, "locks"},       {RLIMIT_SIGPENDING, "sigpending"},
    };
    static_assert(std::size(names) == RLIM_NLIMITS);
    return std::ranges::find(names, resource, &std::pair<int, std::string_view>::first)->second;
}

std::string shown_limit(std::uint64_t value) { return value == RLIM_INFINITY ? "unlimited" : std::to_string(value); }

/// Turns refusals into errors.
class Reasons {
public:
    explicit Reasons(Where const& at) : at_(at), own_(OwnCapabilities::read()) {}

    /// Adds one error for each key: a user that cannot be set means that its groups cannot be set either.
    void add(int code, Where const& place, std::string const& what, int capability) {
        std::string where = place.text();
        if (code == 0 || std::ranges::find(problems_, where, &json::Problem::where) != problems_.end()) return;
        std::string text = "cannot " + what + ": " + errno_text(code);
        CapabilitySet const needed = CapabilitySet{1} << capability;
        if ((code == EPERM || code == EACCES) && !(own_.permitted & needed))
            text += " (it needs " + capability_name(capability) + ")";
        refuse(std::move(where), std::move(text));
    }
    void add(int code, std::string_view key, std::string const& what, int capability) {
        add(code, Where{&at_, key}, what, capability);
    }
    void refuse(std::string where, std::string reason) { problems_.push_back({std::move(where), std::move(reason)}); }

    Problems take() { return std::move(problems_); }

private:
    Where const& at_;
    OwnCapabilities own_;
    Problems problems_;
};

Problems reasons(Settings const& settings, Attributes const& with, Refusals const& refused, Where const& at) {
    Reasons all(at);
    Where const capabilities{&at, std::string_view("capabilities")};
    Where const limits{&at, std::string_view("limits")};
    std::string_view const group = settings.group ? "group" : "user";
    std::string_view const groups = settings.supplementary_groups ? "supplementaryGroups"
                                    : settings.user               ? "user"
                                                                  : "group";
    all.add(refused.user, "user", "become user " + std::to_string(with.identity.user.value_or(0)), CAP_SETUID);
    all.add(refused.group, group, "become group " + std::to_string(with.identity.group.value_or(0)), CAP_SETGID);
    all.add(refused.groups, groups, "set the supplementary groups", CAP_SETGID);
    all.add(refused.root_directory, "rootDirectory", "enter the root directory " + with.root_directory, CAP_SYS_CHROOT);
    for (ResourceLimit const& limit : with.limits) {
        rlimit own{};
        (void)::getrlimit(static_cast<__rlimit_resource>(limit.resource), &own);
        all.add(refused.limits[static_cast<std::size_t>(limit.resource)], Where{&limits, limit_name(limit.resource)},
                "set the hard limit to " + shown_limit(limit.hard) + ", the launcher's is " + shown_limit(own.rlim_max),
                CAP_SYS_RESOURCE);
    }
    all.add(refused.nice, "nice", "set the nice value " + std::to_string(with.nice.value_or(0)), CAP_SYS_NICE);
    all.add(refused.oom_score, "oomScoreAdj",
            "set the OOM score adjustment " + std::to_string(with.oom_score_adj.value_or(0)), CAP_SYS_RESOURCE);
    // The kernel accepts the list if at least one of its CPUs exists and is allowed to us.
    if (refused.cpu_affinity == EINVAL) {
        all.refuse(Where{&at, std::string_view("cpuAffinity")}.text(),
                   "none of these CPUs exists and is allowed for the launcher");
    } else {
        all.add(refused.cpu_affinity, "cpuAffinity", "set the CPU affinity", CAP_SYS_NICE);
    }
    all.add(refused.bounding, Where{&capabilities, std::string_view("bounding")},
            "drop capabilities from the bounding set", CAP_SETPCAP);
    return all.take();
}

struct Unmap {
    void operator()(Refusals* page) const { (void)::munmap(page, sizeof *page); }
};

}  // namespace

Problems try_attributes(Settings const& settings, Attributes const& with, Where const& at, LoadMemory& memory) {
    if (memory.is_tried || !has_something_to_try(with)) return {};
    Attributes tried = what_is_tried(with);
    auto const known = std::ranges::find(memory.trials, tried, &LoadMemory::Trial::tried);
    if (known != memory.trials.end()) return reasons(settings, with, known->refused, at);
    void* const page = ::mmap(nullptr, sizeof(Refusals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return {};
    std::unique_ptr<Refusals, Unmap> const refused{new (page) Refusals};
    run_trial(with, *refused);
    memory.trials.push_back({std::move(tried), *refused});
    return reasons(settings, with, *refused, at);
}

}  // namespace triton::process
