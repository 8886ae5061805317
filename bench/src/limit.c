// What the job costs at least: a supervisor that makes only the system calls which the job needs, in two builds, one
// around posix_spawn (vfork semantics) and one around fork (-DUSE_FORK). It checks, logs and parses nothing.
//   limit COUNT PROGRAM      keep COUNT copies of PROGRAM running; SIGTERM: stop all, wait, exit
//   limit -- PROGRAM [ARG]   run one command, forward signals to it, reap orphans, exit with its code
//   limit capture FILE SIZE PROGRAM   copy what a program writes to FILE, which becomes FILE.1 before it exceeds SIZE
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static pid_t start(char** argv, sigset_t const* mask) {
    pid_t pid = -1;
#ifdef USE_FORK
    pid = fork();
    if (pid == 0) {
        if (mask != NULL) sigprocmask(SIG_SETMASK, mask, NULL);
        execve(argv[0], argv, environ);
        _exit(127);
    }
#else
    posix_spawnattr_t attributes;
    if (mask != NULL) {
        posix_spawnattr_init(&attributes);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        posix_spawnattr_setsigmask(&attributes, mask);
    }
    if (posix_spawn(&pid, argv[0], NULL, mask != NULL ? &attributes : NULL, argv, environ) != 0) return -1;
#endif
    return pid;
}

static int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

static int wrap(char** argv) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t const child = start(argv, &before);
    if (child < 0) return 127;
    for (;;) {
        siginfo_t info;
        int const signo = sigwaitinfo(&all, &info);
        if (signo < 0) continue;
        if (signo != SIGCHLD) {
            kill(child, signo);
            continue;
        }
        int status = 0;
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
            if (pid == child) return code_of(status);
        }
    }
}

static pid_t* pids;
static int count;
static sig_atomic_t volatile stopping;

static void stop(int signo) {
    stopping = 1;
    for (int i = 0; i < count; ++i) {
        if (pids[i] > 0) kill(pids[i], signo);
    }
}

/// Blocks in waitpid and not in sigwait: an exit then costs one system call. The stop is a handler, which is safe here
/// because a child that it could not see yet is told by the line after its start.
static int keep(int wanted, char** argv) {
    pids = calloc((size_t)wanted, sizeof *pids);
    if (pids == NULL) return 1;
    count = wanted;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = stop;
    sigaction(SIGTERM, &action, NULL);
    for (int i = 0; i < wanted; ++i)
        pids[i] = start(argv, NULL);
    for (;;) {
        int status = 0;
        pid_t const pid = waitpid(-1, &status, 0);
        if (pid < 0) {
            if (errno == EINTR) continue;
            return 0;  // nobody is left
        }
        for (int i = 0; i < wanted; ++i) {
            if (pids[i] != pid) continue;
            pids[i] = stopping ? 0 : start(argv, NULL);
            if (stopping && pids[i] > 0) kill(pids[i], SIGTERM);
            break;
        }
    }
}

static int capture(char const* path, long size, char** argv) {
    static char buffer[1 << 16];
    char older[4096];
    int ends[2];
    if (snprintf(older, sizeof older, "%s.1", path) >= (int)sizeof older || pipe2(ends, O_CLOEXEC) != 0) return 1;
    int const before = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    dup2(ends[1], STDOUT_FILENO);
    start(argv, NULL);
    dup2(before, STDOUT_FILENO);
    close(ends[1]);
    int file = -1;
    long room = 0;
    for (ssize_t length; (length = read(ends[0], buffer, sizeof buffer)) > 0; room -= length) {
        if (room < length) {
            if (file >= 0) close(file);
            rename(path, older);
            file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
            room = size;
        }
        if (write(file, buffer, (size_t)length) != length) return 1;
    }
    return 0;
}

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    if (argc == 5 && strcmp(argv[1], "capture") == 0) return capture(argv[2], atol(argv[3]), argv + 4);
    if (strcmp(argv[1], "--") == 0) return wrap(argv + 2);
    return keep(atoi(argv[1]), argv + 2);
}
