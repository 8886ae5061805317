// The program that tests have supervised. Its arguments are steps, done in order; what it sees and does it writes as
// JSON lines to the FIFO named by PROBE_OUT, which it opens for each line so that its own descriptors stay as
// inherited.
//
//   n:N tag:T             shown in each line from here on
//   say:TEXT              a line {"probe":"say","text":TEXT}
//   report                a line with argv, descriptors, signal state, groups, terminal, limits, some variables:
//                         those that are named in PROBE_ENV
//   trap                  hold all signals; `wait` and `until` then report each as it comes
//   wait | until:SIG      report signals for ever | until SIG has come
//   ignore:SIG            ignore it
//   pause sleep:MS exit:N die:SIG stop
//   orphans:N             make N processes whose parent is gone and that end at once
//   child | escape        a process in our group | a daemon in a session of its own; both trap and wait
//   leave                 leave our group for that of our parent
//   take:PID | take-exit:PID:CODE   an orphan with exactly that pid, which traps and waits | ends
//   trace                 a daemon seizes us by ptrace and never collects us: our death stays unseen by our parent
//   append:FILE           append one line to FILE
//   print:TEXT | print-error:TEXT | flood:N  TEXT or N bytes on standard output (or error)
//   write:FD:TEXT | read:FD | close:FD       TEXT to a descriptor | what one read(2) gives, said
//   serve:FD              answer each connection to a listening socket with our pid, for ever
//   notify:TEXT | notify-child:TEXT  a datagram to NOTIFY_SOCKET, from us | from a child of ours in our group
//   make:FILE             an empty file
//   call:NAME             say how a system call ends: "getpid ok", "chmod errno 1"

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { line_size = 1 << 17 };

static char line[line_size];
static size_t used;
static char** argv;
static char const* number = "0";
static char const* tag = "";
static char const* role = "main";

__attribute__((format(printf, 1, 2))) static void add(char const* format, ...) {
    va_list values;
    va_start(values, format);
    int const length = vsnprintf(line + used, line_size - used, format, values);
    va_end(values);
    if (length < 0 || (size_t)length >= line_size - used) abort();
    used += (size_t)length;
}

static void add_text(char const* text) {
    add("\"");
    for (; *text; ++text) {
        unsigned char const c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            add("\\%c", c);
        else if (c < 0x20)
            add("\\u%04x", c);
        else
            add("%c", c);
    }
    add("\"");
}

static void begin(char const* kind) {
    used = 0;
    add("{\"probe\":\"%s\",\"role\":\"%s\",\"pid\":%d,\"n\":%s,\"tag\":", kind, role, getpid(), number);
    add_text(tag);
}

static void emit(void) {
    add("}\n");
    char const* path = getenv("PROBE_OUT");
    if (!path) return;
    int const fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, line, used) < 0) abort();
    close(fd);
}

static void say(char const* text) {
    begin("say");
    add(",\"text\":");
    add_text(text);
    emit();
}

// --- report

static void add_descriptors(void) {
    // by asking, not by /proc, which some tests hide
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    rlim_t const end = files.rlim_cur < 4096 ? files.rlim_cur : 4096;
    char const* separator = "";
    add(",\"fds\":[");
    for (int fd = 0; fd < (int)end; ++fd) {
        if (fcntl(fd, F_GETFD) < 0) continue;
        add("%s%d", separator, fd);
        separator = ",";
    }
    add("],\"nonblocking\":[");
    separator = "";
    for (int fd = 0; fd < 3; ++fd) {
        int const flags = fcntl(fd, F_GETFL);
        if (flags < 0 || !(flags & O_NONBLOCK)) continue;
        add("%s%d", separator, fd);
        separator = ",";
    }
    add("]");
}

static void add_signals(void) {
    uint64_t blocked = 0;
    uint64_t ignored = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &blocked, sizeof blocked);
    for (int signo = 1; signo <= 64; ++signo) {
        struct {
            void (*handler)(int);
            unsigned long flags;
            void* restorer;
            uint64_t mask;
        } action = {0};
        syscall(SYS_rt_sigaction, signo, NULL, &action, sizeof action.mask);
        if (action.handler == SIG_IGN) ignored |= UINT64_C(1) << (signo - 1);
    }
    add(",\"blocked\":%" PRIu64 ",\"ignored\":%" PRIu64, blocked, ignored);
}

static void add_environment(void) {
    char const* wanted = getenv("PROBE_ENV");
    char* const names = strdup(wanted ? wanted : "");
    char const* separator = "";
    add(",\"env\":{");
    for (char* name = strtok(names, " "); name; name = strtok(NULL, " ")) {
        char const* value = getenv(name);
        if (!value) continue;
        add("%s\"%s\":", separator, name);
        add_text(value);
        separator = ",";
    }
    add("}");
    free(names);
}

static void add_file(char const* name, char const* path) {
    char text[4096] = "";
    int const fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t const length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[length < 0 ? 0 : length] = '\0';
    add(",\"%s\":", name);
    add_text(text);
}

static void report(char const* value) {
    (void)value;
    char directory[4096] = "";
    struct rlimit files;
    mode_t const mask = umask(0);
    umask(mask);
    begin("report");
    add(",\"argv\":[");
    for (char** argument = argv; *argument; ++argument) {
        if (argument != argv) add(",");
        add_text(*argument);
    }
    add("]");
    add_descriptors();
    add_signals();
    add_environment();
    getrlimit(RLIMIT_NOFILE, &files);
    add(",\"ppid\":%d,\"pgid\":%d,\"sid\":%d,\"foreground\":%d", getppid(), getpgrp(), getsid(0), tcgetpgrp(0));
    add(",\"uid\":%d,\"umask\":%d,\"nice\":%d,\"files\":%" PRIu64, getuid(), (int)mask, getpriority(PRIO_PROCESS, 0),
        (uint64_t)files.rlim_cur);
    add(",\"cwd\":");
    add_text(getcwd(directory, sizeof directory) ? directory : "?");
    add_file("oom", "/proc/self/oom_score_adj");
    add_file("cgroup", "/proc/self/cgroup");
    emit();
}

// --- signals

static void trap(void) {
    uint64_t const all = ~UINT64_C(0);  // by hand: glibc's masks leave out 32 and 33
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all);
}

static void take_signals(int last) {
    uint64_t const all = ~UINT64_C(0);
    for (;;) {
        siginfo_t info;
        int const signo = (int)syscall(SYS_rt_sigtimedwait, &all, &info, NULL, sizeof all);
        if (signo < 0) continue;
        begin("signal");
        add(",\"signal\":%d", signo);
        emit();
        if (signo == last) return;
    }
}

static _Noreturn void die_by(int signo) {
    uint64_t const none = 0;
    signal(signo, SIG_DFL);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signo);
    _exit(99);
}

// --- other processes

static _Noreturn void stay(char const* as) {
    role = as;
    trap();
    say("up");
    for (;;)
        take_signals(0);
}

static pid_t need_fork(void) {
    pid_t const pid = fork();
    if (pid < 0) {
        begin("failed");
        add(",\"errno\":%d", errno);
        emit();
        _exit(98);
    }
    return pid;
}

static void make_orphans(int count) {
    for (int i = 0; i < count; ++i) {
        pid_t const middle = need_fork();
        if (middle == 0) {
            if (need_fork() == 0) _exit(7);
            _exit(0);
        }
        if (waitpid(middle, NULL, 0) != middle) abort();
    }
}

static void make_daemon(char const* as) {
    pid_t const middle = need_fork();
    if (middle == 0) {
        if (need_fork() != 0) _exit(0);
        setsid();
        stay(as);
    }
    waitpid(middle, NULL, 0);
}

/// An orphan that has exactly this pid. Source: proc(5), /proc/sys/kernel/ns_last_pid.
static void take_pid(char const* wish) {
    pid_t const wanted = (pid_t)atoi(wish);
    char const* code = strchr(wish, ':');
    for (int attempt = 0; attempt < 100; ++attempt) {
        pid_t const middle = need_fork();
        if (middle == 0) {
            FILE* const last = fopen("/proc/sys/kernel/ns_last_pid", "w");
            if (!last || fprintf(last, "%d", wanted - 1) < 0 || fclose(last) != 0) _exit(97);
            pid_t const pid = need_fork();
            if (pid != 0) _exit(pid == wanted ? 0 : 1);
            if (getpid() != wanted) _exit(0);
            if (code) _exit(atoi(code + 1));
            setsid();
            stay("stranger");
        }
        int status;
        waitpid(middle, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            say("taken");
            return;
        }
    }
    say("not taken");
}

static void be_traced(void) {
    pid_t const target = getpid();
    int go[2];
    int ready[2];
    char byte;
    if (pipe2(go, O_CLOEXEC) < 0 || pipe2(ready, O_CLOEXEC) < 0) abort();
    pid_t const middle = need_fork();
    if (middle == 0) {
        if (need_fork() != 0) _exit(0);
        setsid();
        if (read(go[0], &byte, 1) != 1) abort();
        bool const seized = ptrace(PTRACE_SEIZE, target, NULL, NULL) == 0;
        if (write(ready[1], seized ? "y" : "n", 1) != 1) abort();
        stay("tracer");
    }
    // Only then: of a traced process even an ignored SIGCHLD is shown to the tracer first, and ours lets nothing go on.
    waitpid(middle, NULL, 0);
    if (write(go[1], "", 1) != 1 || read(ready[0], &byte, 1) != 1) abort();
    close(go[0]);
    close(go[1]);
    close(ready[0]);
    close(ready[1]);
    say(byte == 'y' ? "traced" : "not traced");
}

// --- steps

static void flood(long bytes) {
    char block[4096];
    memset(block, 'x', sizeof block);
    block[sizeof block - 1] = '\n';
    for (long left = bytes; left > 0;) {
        ssize_t const written = write(1, block, left < (long)sizeof block ? (size_t)left : sizeof block);
        if (written < 0) return;
        left -= written;
    }
}

static void sleep_for(long milliseconds) {
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    while (nanosleep(&left, &left) < 0 && errno == EINTR) {
    }
}

static void append_line(char const* path) {
    int const fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, "line\n", 5) != 5) _exit(97);
    close(fd);
}

static void serve(int listener) {
    for (;;) {
        char answer[64];
        int const connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0) _exit(95);
        int const length = snprintf(answer, sizeof answer, "%d\n", getpid());
        if (write(connection, answer, (size_t)length) != length) _exit(94);
        close(connection);
    }
}

/// Source: sd_notify(3), unix(7).
static void notify(char const* text) {
    char const* name = getenv("NOTIFY_SOCKET");
    if (!name) {
        say("no NOTIFY_SOCKET");
        return;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t const length = strlen(name);
    if (length >= sizeof address.sun_path) abort();
    memcpy(address.sun_path, name, length);
    if (name[0] == '@') address.sun_path[0] = '\0';
    socklen_t const size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    int const fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || sendto(fd, text, strlen(text), 0, (struct sockaddr*)&address, size) < 0) _exit(93);
    close(fd);
}

/// The child stays: whether it may speak for us is found out while it exists.
static void notify_by_child(char const* text) {
    if (need_fork() != 0) return;
    notify(text);
    stay("child");
}

static void read_and_say(int fd) {
    char text[4096];
    ssize_t const length = read(fd, text, sizeof text - 1);
    if (length < 0) _exit(92);
    text[length] = '\0';
    text[strcspn(text, "\n")] = '\0';
    say(text);
}

static void write_text(char const* value) {
    char* text;
    long const fd = strtol(value, &text, 10);
    if (*text == ':') ++text;
    if (dprintf((int)fd, "%s\n", text) < 0) _exit(91);
}

/// Calls that sandboxes refuse, with arguments that do no harm where they do not.
static void call(char const* name) {
    long result = -2;
    if (strcmp(name, "getpid") == 0) result = syscall(SYS_getpid);
    if (strcmp(name, "sethostname") == 0) result = syscall(SYS_sethostname, "", -1L);
    if (strcmp(name, "chroot") == 0) result = syscall(SYS_chroot, "/");
    if (result == -2) abort();
    char text[96];
    snprintf(text, sizeof text, result < 0 ? "%s errno %d" : "%s ok", name, errno);
    say(text);
}

// Steps without a value get an empty one.
static void do_pause(char const* value) {
    for (;;)
        pause();
    (void)value;
}
static void do_child(char const* value) {
    (void)value;
    if (need_fork() == 0) stay("child");
}
static void do_leave(char const* value) {
    (void)value;
    if (setpgid(0, getpgid(getppid())) < 0) _exit(97);
}
static void do_number(char const* value) { number = value; }
static void do_tag(char const* value) { tag = value; }
static void do_trap(char const* value) { (void)value, trap(); }
static void do_until(char const* value) { take_signals(atoi(value)); }
static void do_ignore(char const* value) { signal(atoi(value), SIG_IGN); }
static void do_sleep(char const* value) { sleep_for(atol(value)); }
static void do_exit(char const* value) { _exit(atoi(value)); }
static void do_die(char const* value) { die_by(atoi(value)); }
static void do_stop(char const* value) { (void)value, raise(SIGSTOP); }
static void do_orphans(char const* value) { make_orphans(atoi(value)); }
static void do_escape(char const* value) { (void)value, make_daemon("escaped"); }
static void do_trace(char const* value) { (void)value, be_traced(); }
static void do_print(char const* value) { dprintf(1, "%s\n", value); }
static void do_flood(char const* value) { flood(atol(value)); }
static void do_print_error(char const* value) { dprintf(2, "%s\n", value); }
static void do_close(char const* value) { close(atoi(value)); }
static void do_serve(char const* value) { serve(atoi(value)); }
static void do_read(char const* value) { read_and_say(atoi(value)); }
static void do_make(char const* value) { close(open(value, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)); }

static struct {
    char const* name;
    void (*act)(char const* value);
} const steps[] = {{"n", do_number},
                   {"tag", do_tag},
                   {"say", say},
                   {"report", report},
                   {"trap", do_trap},
                   {"wait", do_until},
                   {"until", do_until},
                   {"ignore", do_ignore},
                   {"pause", do_pause},
                   {"sleep", do_sleep},
                   {"exit", do_exit},
                   {"die", do_die},
                   {"stop", do_stop},
                   {"orphans", do_orphans},
                   {"child", do_child},
                   {"escape", do_escape},
                   {"take", take_pid},
                   {"take-exit", take_pid},
                   {"trace", do_trace},
                   {"append", append_line},
                   {"print", do_print},
                   {"flood", do_flood},
                   {"close", do_close},
                   {"leave", do_leave},
                   {"print-error", do_print_error},
                   {"serve", do_serve},
                   {"read", do_read},
                   {"write", write_text},
                   {"notify", notify},
                   {"notify-child", notify_by_child},
                   {"make", do_make},
                   {"call", call}};

static bool do_step(char const* step) {
    size_t const length = strcspn(step, ":");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) {
        if (strlen(steps[i].name) != length || strncmp(step, steps[i].name, length) != 0) continue;
        steps[i].act(step[length] ? step + length + 1 : "");
        return true;
    }
    return false;
}

int main(int count, char** arguments) {
    argv = arguments;
    for (int i = 1; i < count; ++i) {
        if (do_step(arguments[i])) continue;
        fprintf(stderr, "probe: unknown step %s\n", arguments[i]);
        return 96;
    }
    return 0;
}
