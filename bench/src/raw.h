// System calls without a C library, x86_64 only.
#pragma once
#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#ifndef __x86_64__
#error "the benchmark's child programs are written for x86_64"
#endif

struct timespec_raw {
    long long seconds;
    long long nanoseconds;
};

static inline long raw(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

__attribute__((noreturn)) static inline void leave(int code) {
    for (;;)
        raw(SYS_exit_group, code, 0, 0, 0, 0, 0);
}

/// The kernel's own struct sigaction, which wants to be told how a handler returns.
struct sigaction_raw {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

__asm__(".text\nreturn_from_signal:\n  mov $15, %eax\n  syscall\n");
void return_from_signal(void);

static inline void catch_signal(int signo, void (*handler)(int)) {
    unsigned long const restorer = 0x04000000;  // SA_RESTORER
    struct sigaction_raw const action = {handler, restorer, return_from_signal, 0};
    raw(SYS_rt_sigaction, signo, (long)&action, 0, 8, 0, 0);
}

/// The program's entry point, which hands the initial stack (argc, argv, environment) to a function.
#define ENTRY(function)                                                                                              \
    __asm__(".text\n.globl _start\n_start:\n  xor %ebp, %ebp\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call " #function \
            "\n");
