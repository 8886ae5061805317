#include "lib/process/spawn_child.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/stat.h>

#include "lib/process/spawn_stage.h"

namespace triton::process {

namespace {

/// Reports a failure and exits. The word is written in one step, so that a kill cannot leave half of it.
[[noreturn]] void give_up(SpawnChild& child, SpawnStage stage, raw::Value result) {
    unsigned long const word = FailureCells::pack(raw::call(SYS_getpid), static_cast<unsigned char>(stage), -result);
    unsigned long used = 0;
    for (unsigned long& cell : child.failures->words) {
        ++used;
        unsigned long known = __atomic_load_n(&child.failures->used, __ATOMIC_RELAXED);
        while (known < used && !__atomic_compare_exchange_n(&child.failures->used, &known, used, false,
                                                            __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        }
        unsigned long free = 0;
        if (__atomic_compare_exchange_n(&cell, &free, word, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) break;
    }
    raw::exit(127);
}

/// Makes a system call that must succeed.
template <class... Arguments>
raw::Value need(SpawnChild& child, SpawnStage stage, long number, Arguments... arguments) {
    raw::Value const result = raw::call(number, static_cast<long>(arguments)...);
    if (result < 0) give_up(child, stage, result);
    return result;
}

void write_file(SpawnChild& child, SpawnStage stage, int directory, char const* path, char const* text,
                unsigned length) {
    raw::Value const fd = need(child, stage, SYS_openat, directory, raw::address(path), O_WRONLY | O_CLOEXEC);
    (void)need(child, stage, SYS_write, fd, raw::address(text), length);
    (void)raw::call(SYS_close, fd);
}

/// Opens a path below a directory where openat2(2) is missing. This child has no memory for the texts of links, so it
/// follows none, and no "..".
raw::Value open_without_links(raw::Value root, char const* path, int flags) {
    constexpr int longest_name = 256;
    raw::Value current = root;
    for (;;) {
        while (*path == '/')
            ++path;
        char name[longest_name];
        int length = 0;
        for (; *path != '\0' && *path != '/' && length < longest_name - 1; ++path)
            name[length++] = *path;
        name[length] = '\0';
        if (*path != '\0' && *path != '/') return -ENAMETOOLONG;
        if (name[0] == '.' && name[1] == '.' && name[2] == '\0') return -ELOOP;
        int const how = *path == '\0' ? flags : O_PATH | O_DIRECTORY | O_CLOEXEC;
        raw::Value const next = raw::call(SYS_openat, current, raw::address(length > 0 ? name : "."), how | O_NOFOLLOW);
        if (current != root) (void)raw::call(SYS_close, current);
        if (*path == '\0' || next < 0) return next;
        current = next;
    }
}

/// Opens a path as files::open_confined() does.
raw::Value open_confined(SpawnChild& child, SpawnStage stage, char const* root_directory, char const* path, int flags) {
    constexpr int most_attempts = 16;
    if (!root_directory) return need(child, stage, SYS_openat, AT_FDCWD, raw::address(path), flags);
    raw::Value const root =
        need(child, stage, SYS_openat, AT_FDCWD, raw::address(root_directory), O_PATH | O_DIRECTORY | O_CLOEXEC);
    open_how how{};
    how.flags = static_cast<unsigned>(flags);
    how.resolve = RESOLVE_IN_ROOT;
    raw::Value fd = -EAGAIN;
    for (int attempt = 0; (fd == -EAGAIN || fd == -EINTR) && attempt < most_attempts; ++attempt)
        fd = raw::call(SYS_openat2, root, raw::address(path), raw::address(&how), sizeof how);
    if (fd == -ENOSYS || fd == -EPERM) fd = open_without_links(root, path, flags);
    if (fd < 0) give_up(child, stage, fd);
    (void)raw::call(SYS_close, root);
    return fd;
}

void restore_mask(SpawnChild const& child) {
    (void)raw::call(SYS_rt_sigprocmask, SIG_SETMASK, raw::address(&child.inherited_mask), 0, sizeof(raw::SignalSet));
}

/// Opens the file that is to be the standard input, with the rights of the launcher and inside the root directory. A
/// FIFO without a writer would keep us, so only files and devices are taken. Where a file system does not answer, this
/// child waits, and nobody else, until a signal ends it.
int open_input(SpawnChild& child, char const* root_directory) {
    constexpr auto stage = SpawnStage::input;
    restore_mask(child);
    raw::Value const fd =
        open_confined(child, stage, root_directory, child.input, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat status;
    (void)need(child, stage, SYS_fstat, fd, raw::address(&status));
    if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) give_up(child, stage, -EIO);
    (void)raw::call(SYS_fcntl, fd, F_SETFL, 0);
    return static_cast<int>(fd);
}

/// Moves each descriptor to its number. Those in the place of another one first move above all of them. So does the
/// ruleset, which has no number to go to and is needed later.
void place_descriptors(SpawnChild& child, int& landlock) {
    int highest = 2;
    for (unsigned i = 0; i < child.move_count; ++i)
        highest = child.moves[i].to > highest ? child.moves[i].to : highest;
    auto const out_of_the_way = [&](int fd) {
        if (fd < 0 || fd > highest) return fd;
        return static_cast<int>(need(child, SpawnStage::descriptors, SYS_fcntl, fd, F_DUPFD_CLOEXEC, highest + 1));
    };
    landlock = out_of_the_way(landlock);
    for (unsigned i = 0; i < child.move_count; ++i)
        child.moves[i].from = out_of_the_way(child.moves[i].from);
    for (unsigned i = 0; i < child.move_count; ++i)
        (void)need(child, SpawnStage::descriptors, SYS_dup3, child.moves[i].from, child.moves[i].to, 0);
}

void render_pid(char* out, raw::Value pid) {
    char digits[pid_room];
    unsigned count = 0;
    do {
        digits[count++] = static_cast<char>('0' + pid % 10);
        pid /= 10;
    } while (pid > 0);
    while (count > 0)
        *out++ = digits[--count];
    *out = '\0';
}

/// Makes the kernel mark the word when this child leaves its memory. It reads the list then, so the list must still be
/// there. Where that is refused the word stays unmarked, and the end of the round's pipe tells instead.
struct ExecutionMark {
    robust_list entry;
    robust_list_head head;

    void set(ExecutionWord* word) {
        entry.next = &head.list;
        head.list.next = &entry;
        head.futex_offset = raw::address(word) - raw::address(&entry);
        head.list_op_pending = nullptr;
        if (raw::call(SYS_set_robust_list, raw::address(&head), sizeof head) == 0)
            __atomic_store_n(word, static_cast<ExecutionWord>(raw::call(SYS_gettid)), __ATOMIC_RELEASE);
    }
};
static_assert(owner_has_left == FUTEX_OWNER_DIED && (word_is_given & ~FUTEX_TID_MASK) == 0);

/// Sets what needs privileges that the program may not have, or what its root directory would hide.
void set_resources(SpawnChild& child, ChildAttributes const& with) {
    if (with.oom_score_adj_length > 0)
        write_file(child, SpawnStage::oom_score, AT_FDCWD, "/proc/self/oom_score_adj", with.oom_score_adj,
                   with.oom_score_adj_length);
    for (unsigned i = 0; i < with.limit_count; ++i)
        (void)need(child, SpawnStage::resource_limit, SYS_prlimit64, 0, with.limits[i].resource,
                   raw::address(with.limits[i].values), 0);
    if (with.has_nice) (void)need(child, SpawnStage::nice, SYS_setpriority, 0 /* PRIO_PROCESS */, 0, with.nice);
    if (with.cpu_mask_bytes > 0)
        (void)need(child, SpawnStage::cpu_affinity, SYS_sched_setaffinity, 0, with.cpu_mask_bytes,
                   raw::address(with.cpu_mask));
    if (with.has_umask) (void)raw::call(SYS_umask, with.umask);
    if (with.root_directory) {
        (void)need(child, SpawnStage::root_directory, SYS_chroot, raw::address(with.root_directory));
        // Nothing outside may stay reachable by "..".
        (void)need(child, SpawnStage::root_directory, SYS_chdir, raw::address("/"));
    }
}

void set_capabilities(SpawnChild& child, ChildAttributes const& with) {
    constexpr auto stage = SpawnStage::capabilities;
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2];
    (void)need(child, stage, SYS_capget, raw::address(&header), raw::address(data));
    for (unsigned i = 0; i < 2; ++i) {
        auto const ambient = static_cast<unsigned>(with.ambient >> (32 * i));
        // As another user, only the capabilities that are passed on remain. As our own user, execve decides by the
        // bounding set.
        if (with.has_user) data[i].permitted = data[i].effective = ambient;
        data[i].inheritable = static_cast<unsigned>(with.inheritable >> (32 * i));
    }
    (void)need(child, stage, SYS_capset, raw::address(&header), raw::address(data));
    (void)need(child, stage, SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int number = 0; number < 64; ++number) {
        if (with.ambient >> number & 1)
            (void)need(child, stage, SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number, 0, 0);
    }
}

/// Sets one limit of the mark; see MarkLimits. One that was lowered on purpose is left alone. Nothing depends on
/// success here.
void set_mark(int resource, unsigned long mark) {
    unsigned long values[2] = {};
    if (mark == 0 || raw::call(SYS_prlimit64, 0, resource, 0, raw::address(values)) != 0) return;
    if (values[0] < mark || values[1] < mark) return;
    values[0] = values[1] = mark;
    (void)raw::call(SYS_prlimit64, 0, resource, raw::address(values), 0);
}

void change_identity(SpawnChild& child, ChildAttributes const& with) {
    for (int number = 0; number < 64; ++number) {
        if (with.drop_bounding >> number & 1)
            (void)need(child, SpawnStage::bounding_capabilities, SYS_prctl, PR_CAPBSET_DROP, number);
    }
    if (with.has_groups)
        (void)need(child, SpawnStage::groups, SYS_setgroups, with.group_count, raw::address(with.groups));
    if (with.has_group) (void)need(child, SpawnStage::group, SYS_setresgid, with.group, with.group, with.group);
    if (with.has_user) {
        if (with.has_capabilities) (void)need(child, SpawnStage::capabilities, SYS_prctl, PR_SET_KEEPCAPS, 1);
        (void)need(child, SpawnStage::user, SYS_setresuid, with.user, with.user, with.user);
    }
    if (with.has_capabilities) set_capabilities(child, with);
    if (with.no_new_privileges)
        (void)need(child, SpawnStage::no_new_privileges, SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

}  // namespace

void run_spawn_child(void* spawn_child) {
    auto& child = *static_cast<SpawnChild*>(spawn_child);
    ChildAttributes const* const with = child.attributes;
    int landlock = with ? with->landlock : -1;
    ExecutionMark mark;
    if (child.execution) mark.set(child.execution);
    // Comes first, so that everything we use counts for the group.
    if (child.cgroup >= 0) write_file(child, SpawnStage::cgroup, child.cgroup, "cgroup.procs", "0", 1);
    // The child gets its own group: the terminal's ^C is for the launcher, and the whole group can be signalled. With
    // its own terminal it leads a session and so a group, which is the terminal's foreground. Source: tty_ioctl(4).
    if (child.has_terminal) {
        (void)need(child, SpawnStage::controlling_terminal, SYS_setsid);
    } else {
        (void)need(child, SpawnStage::process_group, SYS_setpgid, 0, 0);
    }
    // Comes before any move, so that /proc/self/fd has what the launcher has.
    if (child.input) child.moves[0].from = open_input(child, with ? with->root_directory : nullptr);
    // Comes before the limit of descriptors, which does not affect those that are open already.
    if (child.move_count > 0) place_descriptors(child, landlock);
    if (child.has_terminal)
        (void)need(child, SpawnStage::controlling_terminal, SYS_ioctl, 0, 0x540e /* TIOCSCTTY */, 0);
    // Takes the foreground of our terminal, if there is one; SIGTTOU is blocked like all signals. Source: tcsetpgrp(3).
    if (with && with->is_foreground && !child.leaves_foreground) {
        auto const group = static_cast<int>(raw::call(SYS_getpid));
        (void)raw::call(SYS_ioctl, 0, 0x5410 /* TIOCSPGRP */, raw::address(&group));
    }
    set_mark(15 /* RLIMIT_RTTIME */, child.mark);
    set_mark(10 /* RLIMIT_LOCKS */, child.mark_locks);
    if (with) {
        set_resources(child, *with);
        change_identity(child, *with);
    }
    // Comes after the ids, since changing them clears it.
    int const orphan_signal = with && with->has_parent_death_signal ? with->parent_death_signal : child.orphan_signal;
    if (orphan_signal) {
        (void)need(child, SpawnStage::parent_death_signal, SYS_prctl, PR_SET_PDEATHSIG, orphan_signal);
        if (raw::call(SYS_getppid) != child.parent) raw::exit(127);  // too late: the parent died before that
    }
    if (with) {
        // Entered as the program's user, who may not have access to it.
        char const* const directory = child.working_directory ? child.working_directory : with->working_directory;
        if (directory) (void)need(child, SpawnStage::working_directory, SYS_chdir, raw::address(directory));
        if (landlock >= 0) (void)need(child, SpawnStage::landlock, 446 /* landlock_restrict_self */, landlock, 0);
    }
    if (child.listen_pid) render_pid(child.listen_pid, raw::call(SYS_getpid));
    if (child.watchdog_pid) render_pid(child.watchdog_pid, raw::call(SYS_getpid));
    for (raw::SignalSet rest = child.to_default; rest != 0; rest &= rest - 1) {
        raw::KernelSigaction const fresh{};
        (void)raw::call(SYS_rt_sigaction, __builtin_ctzl(rest) + 1, raw::address(&fresh), 0, sizeof(raw::SignalSet));
    }
    if (child.inherited_sigchld)
        (void)raw::call(SYS_rt_sigaction, SIGCHLD, raw::address(child.inherited_sigchld), 0, sizeof(raw::SignalSet));
    restore_mask(child);
    if (with && with->seccomp)
        (void)need(child, SpawnStage::seccomp, SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, raw::address(with->seccomp));
    give_up(child, SpawnStage::execute,
            raw::call(SYS_execve, raw::address(child.program), raw::address(child.argv), raw::address(child.envp)));
}

}  // namespace triton::process
