#pragma once

// System calls without libc: no errno, no thread-local storage, no symbol that needs a relocation. The wrap mode runs
// on these before libc has started (see early.cpp), and so does every child between clone and execve.

#include <sys/syscall.h>

#if !defined(__x86_64__)
#include <cerrno>

#include <sched.h>
#include <unistd.h>
#endif

namespace triton::process::raw {

/// The kernel's own convention: a result, or -errno.
using Value = long;

#if defined(__x86_64__)

inline Value call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
    Value result;
    register long r10 asm("r10") = d;
    register long r8 asm("r8") = e;
    asm volatile("syscall"
                 : "=a"(result)
                 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                 : "rcx", "r11", "memory");
    return result;
}

/// clone(2) with a stack for the child, which runs `body(argument)` there and never returns from it.
/// `stack_top` is aligned to 16 bytes; `child_tid` is for CLONE_CHILD_CLEARTID. clone, not clone3: Docker's default
/// seccomp profile answers the latter with ENOSYS.
inline Value clone(unsigned long flags, void* stack_top, int* child_tid, void (*body)(void*), void* argument) {
    Value result;
    register int* r10 asm("r10") = child_tid;
    register long r8 asm("r8") = 0;
    asm volatile(
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 1f\n\t"
        "mov %[argument], %%rdi\n\t"
        "call *%[body]\n\t"
        "ud2\n"
        "1:"
        : "=a"(result)
        : "a"(SYS_clone), "D"(flags), "S"(stack_top), "d"(0L), "r"(r10),
          "r"(r8), [body] "r"(body), [argument] "r"(argument)
        : "rcx", "r11", "memory");
    return result;
}

#else

inline Value call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
    long const result = ::syscall(number, a, b, c, d, e);
    return result < 0 ? -errno : result;
}

struct CloneBody {
    void (*body)(void*);
    void* argument;
};

inline Value clone(unsigned long flags, void* stack_top, int* child_tid, void (*body)(void*), void* argument) {
    auto* const start = static_cast<CloneBody*>(stack_top) - 1;
    *start = {body, argument};
    auto const run = [](void* at) -> int {
        auto const* const self = static_cast<CloneBody*>(at);
        self->body(self->argument);
        __builtin_unreachable();
    };
    void* const below = reinterpret_cast<char*>(start) - (reinterpret_cast<unsigned long>(start) & 15);
    int const pid = ::clone(run, below, static_cast<int>(flags), start, nullptr, nullptr, child_tid);
    return pid < 0 ? -errno : pid;
}

#endif

template <class T>
long address(T* pointer) {
    return reinterpret_cast<long>(pointer);
}

[[noreturn]] inline void exit(int code) {
    for (;;)
        (void)call(SYS_exit_group, code);
}

/// The kernel's signal set: bit n-1 for signal n.
using SignalSet = unsigned long;
inline constexpr int highest_signal = 64;
inline constexpr SignalSet bit(int signo) { return 1UL << (signo - 1); }

/// struct sigaction as the kernel defines it, which is not libc's.
struct KernelSigaction {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    SignalSet mask;
};

}  // namespace triton::process::raw
