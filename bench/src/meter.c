// The harness's own hands, a shared library for Python: what is timed is timed in C.
// Every function returns nanoseconds of CLOCK_MONOTONIC, or a negative errno.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "area.h"

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/// Starts a program in a session of its own with /dev/null as its three files, default signals and nothing blocked, so
/// that no contender inherits what Python or a terminal had set. Returns the time just before.
int64_t meter_spawn(char** argv, char** environment, char const* directory, int* pid) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&files, 0, 1);
    posix_spawn_file_actions_adddup2(&files, 0, 2);
    posix_spawn_file_actions_addchdir_np(&files, directory);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    int64_t const before = now();
    int const error = posix_spawn(pid, argv[0], &files, &attributes, argv, environment);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return error != 0 ? -error : before;
}

/// From the start of a program to its being reaped.
int64_t meter_run(char** argv, char** environment, char const* directory, int* status) {
    int pid = -1;
    int64_t const before = meter_spawn(argv, environment, directory, &pid);
    if (before < 0) return before;
    while (waitpid(pid, status, 0) < 0) {
        if (errno != EINTR) return -errno;
    }
    return now() - before;
}

/// Blocks until the area holds that many records. -ETIMEDOUT when it does not in time.
int64_t meter_wait(struct Area* area, unsigned count, int64_t timeout_ns) {
    int64_t const deadline = now() + timeout_ns;
    __atomic_store_n(&area->wake_at, count, __ATOMIC_RELEASE);
    for (;;) {
        unsigned const seen = __atomic_load_n(&area->count, __ATOMIC_ACQUIRE);
        if (seen >= count) break;
        int64_t const left = deadline - now();
        if (left <= 0) return -ETIMEDOUT;
        struct timespec const timeout = {left / 1000000000, left % 1000000000};
        syscall(SYS_futex, &area->count, FUTEX_WAIT, seen, &timeout, NULL, 0);
    }
    // A record is counted before it is written: wait for the last writers, who are running right now.
    for (unsigned i = 0; i < count; ++i) {
        while (__atomic_load_n(&area->records[i].pid, __ATOMIC_ACQUIRE) == 0) {
            if (now() > deadline) return -ETIMEDOUT;
            sched_yield();
        }
    }
    return now();
}

/// Signals all of these processes in a row. Returns the time before the first.
int64_t meter_signal(int const* pids, int count, int signo) {
    int64_t const before = now();
    for (int i = 0; i < count; ++i) {
        if (kill(pids[i], signo) < 0) return -errno;
    }
    return before;
}

/// In a forked child: the same clean start that meter_spawn gives, then the program.
__attribute__((noreturn)) static void become(char** argv, char** environment, char const* directory, int traced) {
    sigset_t none;
    sigemptyset(&none);
    for (int signo = 1; signo < NSIG; ++signo)
        signal(signo, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int const null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd)
        dup2(null, fd);
    close(null);
    setsid();
    if (traced) ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    if (chdir(directory) == 0) execve(argv[0], argv, environment);
    _exit(127);
}

/// Runs a program as PID 1 of a PID namespace of its own, to its end.
int64_t meter_run_as_init(char** argv, char** environment, char const* directory, int* status) {
    int64_t const before = now();
    long const pid = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
    if (pid < 0) return -errno;
    if (pid == 0) become(argv, environment, directory, 0);
    while (waitpid((pid_t)pid, status, 0) < 0) {
        if (errno != EINTR) return -errno;
    }
    return now() - before;
}

/// Counts what a program does in user space between its exec and its end, its children not included: instructions (by
/// single steps, because virtual machines often have no counters) or system calls. Returns the count.
int64_t meter_count(char** argv, char** environment, char const* directory, int steps) {
    cpu_set_t before, one;
    sched_getaffinity(0, sizeof before, &before);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);  // a step is then a switch and not an interrupt to another processor
    pid_t const pid = fork();
    if (pid == 0) become(argv, environment, directory, 1);
    int64_t count = 0;
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status)) count = -ENOEXEC;
    if (count == 0) ptrace(PTRACE_SETOPTIONS, pid, NULL, (void*)(long)(PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD));
    for (long signo = 0; count >= 0;) {
        if (ptrace(steps ? PTRACE_SINGLESTEP : PTRACE_SYSCALL, pid, NULL, (void*)signo) < 0) count = -errno;
        if (count < 0 || waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status)) break;
        int const stop = WSTOPSIG(status);
        int const counted = steps ? stop == SIGTRAP : stop == (SIGTRAP | 0x80);
        if (counted) ++count;
        signo = counted || stop == SIGTRAP ? 0 : stop;
    }
    sched_setaffinity(0, sizeof before, &before);
    if (count >= 0 && status != 0) return -ECANCELED;  // it did not do its job, hence the count means nothing
    // A system call stops twice, on entry and on return, except for the last one, which does not return.
    return steps || count < 0 ? count : (count + 1) / 2;
}
