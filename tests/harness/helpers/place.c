// Places a program where a test wants it: in a PID and mount namespace of its own, as PID 1 or as an ordinary process,
// with chosen signals, descriptors, limits, user, terminal and mounts; then executes it.
//
// The program becomes a child of our parent (CLONE_PARENT), so that the test itself waits for it and sees how it ended.
// When it is not PID 1, a small init is; killing PID 1 from outside ends everything inside, which is how tests clean
// up. Source: clone(2), pid_namespaces(7), mount_namespaces(7), time_namespaces(7).

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { most = 16, last_signal = 64, listmount = 458 };

struct List {
    char const* items[most];
    int count;
};

static bool pid1, terminal, new_session, hide_proc, read_only;
static long report_fd = -1, uid = -1, mask = -1, processes = -1, files = -1, file_size = -1, niceness;
static long term_after = -1;
static bool deny_far_close, deny_close_range, deny_exit_127, deny_shared_clone, deny_listmount;
static char const *directory, *root, *monotonic, *out_of_memory;
static struct List tmpfs, binds, fuse, extra_fds, closed;
static unsigned long blocked, ignored;

/// One option; of the pointers exactly one is set and says what the option's value is (a flag has none).
static struct Option {
    char const* name;
    bool* flag;
    long* number;
    char const** text;
    struct List* list;
    unsigned long* signals;
    int base;
} const options[] = {
    {.name = "--pid1", .flag = &pid1},
    {.name = "--terminal", .flag = &terminal},  // standard input becomes the controlling terminal
    {.name = "--new-session", .flag = &new_session},
    {.name = "--hide-proc", .flag = &hide_proc},  // an empty /proc
    {.name = "--read-only", .flag = &read_only},  // the root mount
    {.name = "--report", .number = &report_fd},   // "INIT-PID PROGRAM-PID" is written there
    {.name = "--uid", .number = &uid},            // and gid
    {.name = "--umask", .number = &mask, .base = 8},
    {.name = "--processes", .number = &processes},  // RLIMIT_NPROC
    {.name = "--files", .number = &files},          // RLIMIT_NOFILE
    {.name = "--file-size", .number = &file_size},  // RLIMIT_FSIZE
    {.name = "--nice", .number = &niceness},
    {.name = "--deny-far-close", .flag = &deny_far_close},        // close(2) of a descriptor that nobody can have kills
    {.name = "--deny-close-range", .flag = &deny_close_range},    // as Linux before 5.9
    {.name = "--deny-exit-127", .flag = &deny_exit_127},          // who wants to exit with that code is killed instead
    {.name = "--deny-shared-clone", .flag = &deny_shared_clone},  // as qemu's user mode: memory is shared by vfork only
    {.name = "--deny-listmount", .flag = &deny_listmount},        // as filters older than Linux 6.8: it kills
    {.name = "--term-after", .number = &term_after},  // SIGTERM when the program has made so many system calls
    {.name = "--directory", .text = &directory},
    {.name = "--root", .text = &root},            // chroot
    {.name = "--monotonic", .text = &monotonic},  // seconds that CLOCK_MONOTONIC is moved by
    {.name = "--oom", .text = &out_of_memory},
    {.name = "--tmpfs", .list = &tmpfs},   // DIR or DIR:OPTIONS
    {.name = "--bind", .list = &binds},    // DIR:DIR, the first one is seen at the second one too
    {.name = "--fuse", .list = &fuse},     // FD:DIR, which whoever has FD serves
    {.name = "--fd", .list = &extra_fds},  // open there, without close-on-exec
    {.name = "--close", .list = &closed},
    {.name = "--block", .signals = &blocked},
    {.name = "--ignore", .signals = &ignored},
};

static void die(char const* what) {
    fprintf(stderr, "place: %s: %s\n", what, strerror(errno));
    _exit(99);
}

static void need(int result, char const* what) {
    if (result < 0) die(what);
}

static void write_file(char const* path, char const* text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    need(fd, path);
    if (write(fd, text, strlen(text)) < 0) die(path);
    close(fd);
}

static void set(struct Option const* option, char const* value) {
    if (option->number) *option->number = strtol(value, NULL, option->base);
    if (option->text) *option->text = value;
    if (option->list && option->list->count < most) option->list->items[option->list->count++] = value;
    if (option->signals) *option->signals |= 1UL << (atoi(value) - 1);
}

static struct Option const* find(char const* name) {
    for (size_t i = 0; i < sizeof options / sizeof *options; ++i) {
        if (strcmp(options[i].name, name) == 0) return &options[i];
    }
    errno = EINVAL;
    die(name);
    return NULL;
}

/// Returns the command behind "--".
static char** parse(char** argument) {
    for (; *argument; ++argument) {
        if (strcmp(*argument, "--") == 0 && argument[1]) return argument + 1;
        struct Option const* const option = find(*argument);
        if (option->flag)
            *option->flag = true;
        else if (*++argument)
            set(option, *argument);
        else
            break;
    }
    errno = EINVAL;
    die("no program");
    return NULL;
}

/// fork, but the child's parent is ours: the test reaps it.
static pid_t fork_sibling(void) { return (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0); }

static void enter_namespaces(void) {
    int flags = CLONE_NEWPID | CLONE_NEWNS;
    uid_t const own_uid = geteuid();
    gid_t const own_gid = getegid();
    if (own_uid != 0) flags |= CLONE_NEWUSER;
    if (monotonic) flags |= CLONE_NEWTIME;
    need(unshare(flags), "unshare");
    if (own_uid != 0) {
        char map[64];
        snprintf(map, sizeof map, "0 %u 1", own_uid);
        write_file("/proc/self/uid_map", map);
        write_file("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "0 %u 1", own_gid);
        write_file("/proc/self/gid_map", map);
    }
    if (monotonic) {
        char offset[64];
        snprintf(offset, sizeof offset, "monotonic %s 0", monotonic);
        write_file("/proc/self/timens_offsets", offset);
    }
    need(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount private");
}

static void mount_all(void) {
    need(mount("proc", "/proc", hide_proc ? "tmpfs" : "proc", 0, NULL), "mount /proc");
    for (int i = 0; i < tmpfs.count; ++i) {
        char* const target = strdup(tmpfs.items[i]);
        char* const how = strchr(target, ':');
        if (how) *how = '\0';
        need(mount("tmpfs", target, "tmpfs", 0, how ? how + 1 : NULL), "mount tmpfs");
        free(target);
    }
    for (int i = 0; i < binds.count; ++i) {
        char* const source = strdup(binds.items[i]);
        char* const target = strchr(source, ':');
        if (!target) die(source);
        *target = '\0';
        need(mount(source, target + 1, NULL, MS_BIND, NULL), "mount --bind");
        free(source);
    }
    for (int i = 0; i < fuse.count; ++i) {
        char how[96];
        char* target = NULL;
        int const fd = (int)strtol(fuse.items[i], &target, 10);
        if (*target != ':') die(fuse.items[i]);
        snprintf(how, sizeof how, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd);
        need(mount("test", target + 1, "fuse", 0, how), "mount fuse");
        close(fd);
    }
    // only the mount that holds everything else: what the test mounted above it stays writable
    if (read_only) need(mount(NULL, "/", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), "remount /");
}

static void limit(int what, long value) {
    struct rlimit const both = {(rlim_t)value, (rlim_t)value};
    need(setrlimit((__rlimit_resource_t)what, &both), "setrlimit");
}

/// What the kernel does to a system call whose first argument, as far as `mask` looks at it, compares so with `value`.
static void filter(long call, unsigned mask, unsigned short compare, unsigned value, unsigned verdict) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP((unsigned short)(BPF_JMP | compare | BPF_K), value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, verdict),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog const program = {sizeof steps / sizeof *steps, steps};
    need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
    need(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "PR_SET_SECCOMP");
}

static void install_filters(void) {
    // close(N) for N >= 4096 can only come from a loop over all possible descriptors
    if (deny_far_close) filter(SYS_close, ~0U, BPF_JGE, 4096, SECCOMP_RET_KILL_PROCESS);
    if (deny_close_range) filter(SYS_close_range, ~0U, BPF_JGE, 0, SECCOMP_RET_ERRNO | ENOSYS);
    if (deny_exit_127) filter(SYS_exit_group, ~0U, BPF_JEQ, 127, SECCOMP_RET_KILL_PROCESS);
    if (deny_listmount) filter(listmount, ~0U, BPF_JGE, 0, SECCOMP_RET_KILL_PROCESS);
    if (deny_shared_clone) filter(SYS_clone, CLONE_VM | CLONE_VFORK, BPF_JEQ, CLONE_VM, SECCOMP_RET_ERRNO | EINVAL);
}

/// Sends SIGTERM when the program, a moment after its execve, has made `term_after` system calls, and lets it go on.
static void send_early_term(pid_t program, int ready) {
    int status;
    need((int)ptrace(PTRACE_SEIZE, program, NULL, (void*)PTRACE_O_TRACEEXEC), "PTRACE_SEIZE");
    if (write(ready, "", 1) != 1) die("go on");
    need(waitpid(program, &status, __WALL), "wait for execve");
    // execve's own end comes first, then the beginning and the end of each call
    for (long stops = 0; stops < 1 + 2 * term_after; ++stops) {
        if (!WIFSTOPPED(status)) break;
        need((int)ptrace(PTRACE_SYSCALL, program, NULL, NULL), "PTRACE_SYSCALL");
        need(waitpid(program, &status, __WALL), "wait for a system call");
    }
    need(kill(program, SIGTERM), "kill");
    need((int)ptrace(PTRACE_DETACH, program, NULL, NULL), "PTRACE_DETACH");
}

static void become(char** command) {
    // never in the group of the test runner: a program that signals its own group must not reach it
    if (terminal || new_session)
        need(setsid(), "setsid");
    else
        need(setpgid(0, 0), "setpgid");
    if (terminal) need(ioctl(0, TIOCSCTTY, 0), "TIOCSCTTY");
    int const null = open("/dev/null", O_RDWR | O_CLOEXEC);  // before a --root, which may have none
    need(null, "/dev/null");
    for (int i = 0; i < extra_fds.count; ++i) {
        int const fd = atoi(extra_fds.items[i]);
        need(fd == null ? fcntl(fd, F_SETFD, 0) : dup2(null, fd), "extra descriptor");
    }
    for (int i = 0; i < closed.count; ++i)
        close(atoi(closed.items[i]));
    if (out_of_memory) write_file("/proc/self/oom_score_adj", out_of_memory);
    if (niceness != 0) need(setpriority(PRIO_PROCESS, 0, (int)niceness), "nice");
    if (mask >= 0) umask((mode_t)mask);
    if (directory) need(chdir(directory), directory);
    if (root) need(chroot(root), root);
    if (root) need(chdir("/"), "chdir /");
    if (files >= 0) limit(RLIMIT_NOFILE, files);
    if (file_size >= 0) limit(RLIMIT_FSIZE, file_size);
    limit(RLIMIT_CORE, 0);
    if (uid >= 0) {
        need(setresgid((gid_t)uid, (gid_t)uid, (gid_t)uid), "setresgid");
        need(setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid), "setresuid");
    }
    // after setresuid: a user over its limit could not execute anything
    if (processes >= 0) limit(RLIMIT_NPROC, processes);
    install_filters();
    for (int number = 1; number <= last_signal; ++number) {
        // glibc refuses 32 and 33, which it keeps for itself
        struct {
            void (*handler)(int);
            unsigned long flags;
            void* restorer;
            unsigned long mask;
        } action = {0};
        if (ignored & (1UL << (number - 1))) action.handler = SIG_IGN;
        syscall(SYS_rt_sigaction, number, &action, NULL, sizeof action.mask);
    }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, NULL, sizeof blocked);
    execv(command[0], command);
    die(command[0]);
}

/// PID 1 when the program is not: collects what is left to it and dies with the test runner.
static void run_init(int ready) {
    need(prctl(PR_SET_PDEATHSIG, SIGKILL), "PR_SET_PDEATHSIG");
    signal(SIGCHLD, SIG_IGN);
    need(setpgid(0, 0), "setpgid");
    mount_all();
    if (write(ready, "", 1) != 1) die("report");
    // the test's pipes must end with the program, not with us
    need((int)syscall(SYS_close_range, 0, ~0U, 0), "close_range");
    for (;;)
        pause();
}

static pid_t start_init(void) {
    int ready[2];
    char byte;
    need(pipe2(ready, O_CLOEXEC), "pipe");
    pid_t const init = fork_sibling();
    need(init, "clone init");
    if (init == 0) run_init(ready[1]);
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) _exit(99);  // it said why
    close(ready[0]);
    return init;
}

int main(int count, char** arguments) {
    (void)count;
    char** command = parse(arguments + 1);
    if (report_fd >= 0) need(fcntl((int)report_fd, F_SETFD, FD_CLOEXEC), "report descriptor");
    enter_namespaces();
    pid_t const init = pid1 ? 0 : start_init();
    int go_on[2];
    need(pipe2(go_on, O_CLOEXEC), "pipe");
    pid_t const program = fork_sibling();
    need(program, "clone program");
    if (program == 0) {
        if (pid1) {
            if (getpid() != 1) abort();  // tests of reboot(2) rely on it
            need(prctl(PR_SET_PDEATHSIG, SIGKILL), "PR_SET_PDEATHSIG");
            mount_all();
        }
        char byte;
        if (term_after >= 0) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // EINVAL: a kernel without Yama asks for none
        close(go_on[1]);
        if (term_after >= 0 && read(go_on[0], &byte, 1) != 1) _exit(99);
        become(command);
    }
    if (term_after >= 0) send_early_term(program, go_on[1]);
    if (report_fd >= 0) dprintf((int)report_fd, "%d %d\n", init ? init : program, program);
    return 0;
}
