#pragma once

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/process/settings.h"

namespace triton::process {

/// Where our cgroup v2 directory is: the path below a mount of that file system, from the texts of /proc/self/mountinfo
/// and /proc/self/cgroup. nullopt: there is none, or it is outside of what is mounted here.
/// Source: proc_pid_mountinfo(5), cgroups(7).
std::optional<std::string> find_own_cgroup(std::string_view mountinfo, std::string_view cgroup);

/// Processes that could not be signalled.
struct RefusedSignals {
    int pid = 0;  ///< one of them
    unsigned count = 0;
    int error = 0;  ///< errno of that one

    /// The result of kill(2) for one process. One that has ended is none.
    void add(int refused_pid, int code) {
        if (code == 0 || code == ESRCH) return;
        if (count++ > 0) return;
        pid = refused_pid;
        error = code;
    }
};

struct SignalledGroup {
    bool has_leader = false;
    RefusedSignals refused;
};

/// The group of one process and everything that it starts, in a cgroup v2 tree. Dropping this removes it, if nothing
/// is in it any more. Holds no descriptor: there may be thousands.
/// Source: Linux Documentation/admin-guide/cgroup-v2.rst.
class Cgroup {
public:
    Cgroup(Cgroup&& other) noexcept
        : path_(std::exchange(other.path_, {})), set_(other.set_), was_there_(other.was_there_) {}
    Cgroup& operator=(Cgroup other) noexcept {
        std::swap(path_, other.path_);
        std::swap(set_, other.set_);
        std::swap(was_there_, other.was_there_);
        return *this;
    }
    ~Cgroup();

    /// Groups directly below with such a name are for what is not the process: kill(), signal(), contains() and
    /// has_processes() leave them out, while limits count for them, too.
    static constexpr std::string_view apart = "helper-";

    /// For StartFiles::cgroup. Errors: those of open(2).
    [[nodiscard]] Result<UniqueFd> directory() const;
    [[nodiscard]] std::string const& path() const { return path_; }

    /// Sets given limits, and resets those that were set before and are not given now to the kernel's default; of a
    /// group that was there before, nobody knows which these are, and all are reset.
    /// Errors: "the memory controller is not delegated to /x", "cannot write /x/web-1/memory.max: <reason>".
    Result<> set_limits(CgroupLimits const& limits);

    /// SIGKILL to all processes in it, and to what they start meanwhile: by a freeze, signals and a thaw; where it
    /// cannot be frozen, for a while. Does not wait for their end. The group can be used again.
    Result<> kill() const;
    /// The same as directory() for a group below this one, of a name that begins with `apart`. It is made if it is not
    /// there. Errors: "cannot make cgroup /x/y: <reason>", and those of open(2).
    [[nodiscard]] Result<UniqueFd> directory_below(std::string_view name) const;
    /// The same as kill() for that group, which is removed when nobody is in it. Does nothing when there is none.
    Result<> kill_below(std::string_view name) const;
    /// `signo` to each process in it, once.
    Result<SignalledGroup> signal(int signo, int leader) const;
    Result<> freeze(bool frozen) const;

    /// Whether a process is in it or below.
    [[nodiscard]] Result<bool> is_populated() const;
    /// Whether one lives in it, or below and not apart.
    [[nodiscard]] bool has_processes() const;
    /// Processes that the OOM killer has ended in it, since it was made. nullopt: no memory controller.
    [[nodiscard]] std::optional<std::uint64_t> oom_kills() const;
    /// Bytes. nullopt: no memory controller.
    [[nodiscard]] std::optional<std::uint64_t> memory_current() const;
    /// Whether `pid` is in it or below.
    [[nodiscard]] bool contains(int pid) const;

    /// Removes it and what the program made below it. Errors: EBUSY while somebody is in it.
    Result<> remove() const;

private:
    friend class CgroupTree;
    Cgroup(std::string path, bool was_there) : path_(std::move(path)), was_there_(was_there) {}

    std::string path_;        // empty: moved from
    CgroupLimits set_;        // limits that have been written
    bool was_there_ = false;  // and it may have others
};

/// The delegated tree that we are the root of: a leaf `launcher` for ourselves, and beside it one group per process.
class CgroupTree {
public:
    /// Finds our own cgroup, makes sure that it is ours, moves us into its leaf and turns on what controllers it has of
    /// memory, cpu and pids. Ours means: it is not the machine's root, nothing is in it or below it except us, and
    /// we may write there. To be called before anything is started. Does nothing to a cgroup that is not ours.
    /// Errors: why there is no such tree: "there is no cgroup v2 here", "cgroup /x is shared with process 17",
    /// "cannot write cgroup /x: Read-only file system".
    static Result<CgroupTree> create();
    /// The same for a tree that is known, without moving anybody: after an upgrade, and for tests with a directory that
    /// plays a cgroup.
    static Result<CgroupTree> open(std::string path);

    [[nodiscard]] std::string const& path() const { return path_; }
    /// Those of the controllers memory, cpu and pids that the groups have.
    [[nodiscard]] std::vector<std::string> const& controllers() const { return controllers_; }
    [[nodiscard]] bool has(std::string_view controller) const;

    /// Makes the group <program>-<number> (of the unnamed program: process-<number>), or takes the one that is there.
    [[nodiscard]] Result<Cgroup> make_group(std::string_view program, std::uint32_t number) const;

    /// What is missing for these limits: "the memory controller is not delegated to /x", "this kernel has no
    /// memory.swap.max in /x". For the safety checks.
    [[nodiscard]] Result<> check(CgroupLimits const& limits) const;

private:
    explicit CgroupTree(std::string path) : path_(std::move(path)) {}

    std::string path_;
    std::vector<std::string> controllers_;
};

}  // namespace triton::process
