// Loaded into imgadm by LD_PRELOAD: counts the calls that make something durable, and kills the process before the one
// that TRITON_DIE_AT names. Without a number it only writes how many there were to TRITON_STEPS.

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

std::atomic<long> steps{0};

long wanted() {
    static long const number = [] {
        char const* const text = std::getenv("TRITON_DIE_AT");
        return text ? std::atol(text) : -1;
    }();
    return number;
}

void step() {
    if (++steps == wanted()) ::kill(::getpid(), SIGKILL);
}

template <class Function>
Function* real(char const* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

struct AtEnd {
    ~AtEnd() {
        char const* const path = std::getenv("TRITON_STEPS");
        if (!path || wanted() >= 0) return;
        if (std::FILE* const file = std::fopen(path, "we")) {
            std::fprintf(file, "%ld\n", steps.load());
            std::fclose(file);
        }
    }
} at_end;

}  // namespace

// The wrappers have the names of what they wrap, and call it.
#define WRAP(result, name, parameters, arguments)                 \
    extern "C" result name parameters {                           \
        static auto* const next = real<result parameters>(#name); \
        step();                                                   \
        return next arguments;                                    \
    }

WRAP(int, fsync, (int fd), (fd))
WRAP(int, fdatasync, (int fd), (fd))
WRAP(int, syncfs, (int fd), (fd))
WRAP(int, rename, (char const* from, char const* to), (from, to))
WRAP(int, renameat, (int a, char const* from, int b, char const* to), (a, from, b, to))
WRAP(int, renameat2, (int a, char const* from, int b, char const* to, unsigned flags), (a, from, b, to, flags))
WRAP(int, linkat, (int a, char const* from, int b, char const* to, int flags), (a, from, b, to, flags))
WRAP(int, unlink, (char const* path), (path))
WRAP(int, mkdirat, (int at, char const* path, mode_t mode), (at, path, mode))
