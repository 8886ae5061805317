// The child that every contender runs. It has no C library, so that what is measured is the supervisor and not the
// start of the child: its first instruction on the clock is the first instruction of its program.
//   worker                   stamp, then sleep for ever
//   worker signal            stamp, then stamp again in a SIGUSR1 handler
//   worker orphans COUNT     leave COUNT dead orphans to the init at once, stamp then and when it has reaped them all
//   worker end COUNT         leave COUNT living orphans to the init, end them at once, stamp then and when they are reaped
// The area to stamp into is the file named by the environment variable STAMPS. Built with -DNOTIFY it also tells that
// it is ready in the manner of s6, by a newline on descriptor 3. Built with -DWRITE it writes lines of 100 bytes to its
// standard output, 64 KiB at a time, for a second or 1 GiB; stamps when it began, when it ended, and (as if that were a
// time) how many bytes that was; and then sleeps for ever.
#include <linux/futex.h>
#include <stddef.h>

#include "area.h"
#include "raw.h"

static struct Area* area;

static long long now(void) {
    struct timespec_raw t;
    raw(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&t, 0, 0, 0, 0);
    return t.seconds * 1000000000LL + t.nanoseconds;
}

static void stamp(long long ns) {
    unsigned const index = __atomic_fetch_add(&area->count, 1, __ATOMIC_ACQ_REL);
    if (index < area->capacity) {
        area->records[index].ns = ns;
        __atomic_store_n(&area->records[index].pid, (int)raw(SYS_getpid, 0, 0, 0, 0, 0, 0), __ATOMIC_RELEASE);
    }
    if (index + 1 >= __atomic_load_n(&area->wake_at, __ATOMIC_ACQUIRE)) {
        raw(SYS_futex, (long)&area->count, FUTEX_WAKE, 1, 0, 0, 0);
    }
}

static char const* value_of(char** environment, char const* name) {
    for (; *environment != NULL; ++environment) {
        size_t i = 0;
        while (name[i] != '\0' && (*environment)[i] == name[i])
            ++i;
        if (name[i] == '\0' && (*environment)[i] == '=') return *environment + i + 1;
    }
    return NULL;
}

static void map_area(char** environment) {
    char const* path = value_of(environment, "STAMPS");
    if (path == NULL) leave(100);
    long const fd = raw(SYS_open, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0, 0);
    if (fd < 0) leave(101);
    struct Area* const header = (struct Area*)raw(SYS_mmap, 0, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if ((long)header < 0 && (long)header > -4096) leave(102);
    long const size = (long)(sizeof(struct Area) + header->capacity * sizeof(struct Record));
    area = (struct Area*)raw(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if ((long)area < 0 && (long)area > -4096) leave(103);
    raw(SYS_close, fd, 0, 0, 0, 0, 0);
}

static void on_signal(int signo) {
    (void)signo;
    stamp(now());
}

struct Handover {
    long long ns;
    int last;
};

/// Leaves dead, unreaped children behind. Runs in a process of its own, whose end hands all of them over.
__attribute__((noreturn)) static void be_their_parent(long count, struct Handover volatile* handover) {
    for (long i = 0; i < count; ++i) {
        long const child = raw(SYS_fork, 0, 0, 0, 0, 0, 0);
        if (child == 0) leave(0);
        if (child < 0 || raw(SYS_waitid, P_PID, child, 0, WEXITED | WNOWAIT, 0, 0) < 0) leave(104);
        handover->last = (int)child;
    }
    handover->ns = now();
    leave(0);
}

/// Waits until the init has reaped all orphans. It asks for the last one first, because asking for everybody (in a PID
/// namespace -1 means all but PID 1 and the caller, unreaped ones too) is work that would slow the init down.
static void wait_until_alone(int last) {
    struct timespec_raw const pause = {0, 50000};
    while (raw(SYS_kill, last, 0, 0, 0, 0, 0) != -ESRCH || raw(SYS_kill, -1, 0, 0, 0, 0, 0) != -ESRCH) {
        raw(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
    }
}

__attribute__((noreturn)) static void leave_orphans(long count) {
    struct Handover volatile* const handover =
        (struct Handover*)raw(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long const parent = raw(SYS_fork, 0, 0, 0, 0, 0, 0);
    if (parent == 0) be_their_parent(count, handover);
    int status = 0;
    if (parent < 0 || raw(SYS_wait4, parent, (long)&status, 0, 0, 0, 0) != parent || status != 0) leave(105);
    wait_until_alone(handover->last);
    long long const end = now();
    stamp(handover->ns);
    stamp(end);
    leave(0);
}

/// Leaves children behind that live until `gate`, the reading end of a pipe, is at its end.
__attribute__((noreturn)) static void be_their_parent_alive(long count, int const* gate, int volatile* pids) {
    for (long i = 0; i < count; ++i) {
        long const child = raw(SYS_fork, 0, 0, 0, 0, 0, 0);
        if (child == 0) {
            char byte = 0;
            raw(SYS_close, gate[1], 0, 0, 0, 0, 0);
            raw(SYS_read, gate[0], (long)&byte, 1, 0, 0, 0);
            leave(0);
        }
        if (child < 0) leave(107);
        pids[i] = (int)child;
    }
    leave(0);
}

__attribute__((noreturn)) static void end_orphans(long count) {
    int volatile* const pids = (int*)raw(SYS_mmap, 0, count * (long)sizeof(int), PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int gate[2];
    if (raw(SYS_pipe2, (long)gate, O_CLOEXEC, 0, 0, 0, 0) != 0) leave(108);
    long const parent = raw(SYS_fork, 0, 0, 0, 0, 0, 0);
    if (parent == 0) be_their_parent_alive(count, gate, pids);
    int status = 0;
    if (parent < 0 || raw(SYS_wait4, parent, (long)&status, 0, 0, 0, 0) != parent || status != 0) leave(109);
    struct timespec_raw const settle = {0, 200000000}, pause = {0, 200000};
    raw(SYS_nanosleep, (long)&settle, 0, 0, 0, 0, 0);  // the last ones still go to sleep
    long long const begin = now();
    raw(SYS_close, gate[1], 0, 0, 0, 0, 0);
    // One after the other: asking for one takes no lock, and who waits for all of them need not know their order.
    for (long i = 0; i < count; ++i) {
        while (raw(SYS_kill, pids[i], 0, 0, 0, 0, 0) != -ESRCH)
            raw(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
    }
    long long const end = now();
    stamp(begin);
    stamp(end);
    leave(0);
}

#ifdef WRITE
static void write_lines(void) {
    enum { line = 100, part = 1 << 16, parts = line / 4, most = 1 << 30 };
    static char lines[part * parts];  // the least that is whole in lines and in parts
    for (int i = 0; i < (int)sizeof lines; ++i)
        lines[i] = (char)(i % line == line - 1 ? '\n' : 'a' + (i / line + i % line) % 26);
    long long const begin = now();
    long long end = begin;
    long long written = 0;
    while (written < most && end < begin + 1000000000) {
        long const offset = (long)(written % (long long)sizeof lines);
        long const room = (long)sizeof lines - offset;
        long const result = raw(SYS_write, 1, (long)(lines + offset), room < part ? room : part, 0, 0, 0);
        if (result <= 0) leave(106);
        written += result;
        end = now();
    }
    stamp(begin);
    stamp(end);
    stamp(written);
}
#endif

static long number(char const* text) {
    long value = 0;
    for (; *text >= '0' && *text <= '9'; ++text)
        value = value * 10 + (*text - '0');
    return value;
}

__attribute__((noreturn, used)) void run(long* stack) {
    long long const first = now();
    long const argc = stack[0];
    char** const argv = (char**)(stack + 1);
    char** const environment = argv + argc + 1;
    map_area(environment);

    if (argc == 3 && argv[1][0] == 'o') leave_orphans(number(argv[2]));
    if (argc == 3 && argv[1][0] == 'e') end_orphans(number(argv[2]));
    if (argc == 2 && argv[1][0] == 's') catch_signal(SIGUSR1, on_signal);
#ifdef WRITE
    (void)first;
    write_lines();
#else
    stamp(first);
#endif
#ifdef NOTIFY
    raw(SYS_write, 3, (long)"\n", 1, 0, 0, 0);
    raw(SYS_close, 3, 0, 0, 0, 0, 0);
#endif
    for (;;)
        raw(SYS_pause, 0, 0, 0, 0, 0, 0);
}

ENTRY(run)
