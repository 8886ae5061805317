// Parts of the C library that PID 1 brings itself. A static program gets <stdio.h>, wide characters, locales,
// translations and a loader of character sets from glibc, 500 kB in all, because a few of its functions refer to them:
// some that nobody here calls, and some that we need for plain decimal numbers. Each function below takes the place of
// one of those by having its name. If glibc should need more of such a part after all, the linker finds two
// definitions, and this file is left out: CMakeLists.txt tries that. See docs/decisions/0040-size.md.

#undef _FORTIFY_SOURCE  // its inline functions have the names of those below

#include <cerrno>
#include <climits>
#include <clocale>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <unistd.h>

#include "programs/triton-launch/libc_text.h"

#undef stderr

namespace {

using triton::program::RealNumber;
using triton::program::WholeNumber;

void print_now(std::string_view text) {
    (void)!::write(STDERR_FILENO, text.data(), text.size());
}  // nobody else to tell

[[noreturn]] void fail_assertion(char const* expression, char const* file, int line, char const* function) {
    char number[16];
    (void)std::snprintf(number, sizeof number, "%d", line);
    for (std::string_view const part : {"triton-launch: ", file, ":", static_cast<char const*>(number), ": ",
                                        function ? function : "", ": assertion failed: ", expression, "\n"})
        print_now(part);
    std::abort();
}

void set_end(char** end, char const* behind) {
    if (end) *end = const_cast<char*>(behind);
}

unsigned long unsigned_of(char const* text, char** end, int base) {
    WholeNumber const number = triton::program::read_whole(text, base);
    set_end(end, number.end);
    if (number.is_too_large) {
        errno = ERANGE;
        return ULONG_MAX;
    }
    return number.is_negative ? -number.magnitude : number.magnitude;
}

long signed_of(char const* text, char** end, int base) {
    WholeNumber const number = triton::program::read_whole(text, base);
    set_end(end, number.end);
    std::uint64_t const most = static_cast<std::uint64_t>(LONG_MAX) + (number.is_negative ? 1 : 0);
    if (number.is_too_large || number.magnitude > most) {
        errno = ERANGE;
        return number.is_negative ? LONG_MIN : LONG_MAX;
    }
    return static_cast<long>(number.is_negative ? -number.magnitude : number.magnitude);
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the library's names
extern "C" {

// Numbers and text.

static_assert(sizeof(long) == sizeof(long long) && sizeof(long) == sizeof(std::uint64_t));

unsigned long strtoul(char const* text, char** end, int base) noexcept { return unsigned_of(text, end, base); }
unsigned long long strtoull(char const* text, char** end, int base) noexcept { return unsigned_of(text, end, base); }
long strtol(char const* text, char** end, int base) noexcept { return signed_of(text, end, base); }
long long strtoll(char const* text, char** end, int base) noexcept { return signed_of(text, end, base); }

double strtod(char const* text, char** end) noexcept {
    RealNumber const number = triton::program::read_real(text);
    set_end(end, number.end);
    if (__builtin_isinf(number.value)) errno = ERANGE;
    return number.value;
}

int snprintf(char* out, std::size_t size, char const* pattern, ...) noexcept {
    std::va_list values;
    va_start(values, pattern);
    int const length = triton::program::format(out, size, pattern, values);
    va_end(values);
    return length;
}

int __snprintf(char* out, std::size_t size, char const* pattern, ...) {
    std::va_list values;
    va_start(values, pattern);
    int const length = triton::program::format(out, size, pattern, values);
    va_end(values);
    return length;
}

/// The locale is always "C".
lconv* localeconv() noexcept {
    static char point[] = ".";
    static char empty[] = "";
    static lconv conventions{};
    conventions.decimal_point = point;
    conventions.thousands_sep = empty;
    conventions.grouping = empty;
    return &conventions;
}

/// Nothing is translated.
char* gettext(char const* text) noexcept { return const_cast<char*>(text); }
char* __dcgettext(char const*, char const* text, int) { return const_cast<char*>(text); }

// Failed assertions of libraries, and of ours in builds that have them.

void __assert_fail(char const* expression, char const* file, unsigned line, char const* function) noexcept {
    fail_assertion(expression, file, static_cast<int>(line), function);
}

int __fxprintf(FILE*, char const* text, ...) {
    print_now(text);
    return 0;
}

// Not called: malloc_stats(3) and malloc_info(3) print, fork(2) of a program with threads locks streams, and libseccomp
// can write a filter as text.

FILE* stderr = nullptr;

int fprintf(FILE*, char const*, ...) { return 0; }
int fputs(char const*, FILE*) { return 0; }
int _IO_fputs(char const*, FILE*) { return 0; }
std::size_t fwrite(void const*, std::size_t, std::size_t, FILE*) { return 0; }
void* _IO_iter_begin() { return nullptr; }
void* _IO_iter_end() { return nullptr; }
void* _IO_iter_next(void*) { return nullptr; }
void* _IO_iter_file(void*) { return nullptr; }
void _IO_list_lock() {}
void _IO_list_unlock() {}
void _IO_list_resetlock() {}
int gen_pfc_generate(void const*, int) { return -EOPNOTSUPP; }

// Called when libc starts. There are no tables of a locale for <ctype.h>: a program that used it would link the
// function that this one replaces, and not link. A static program has no directories to load libraries from.

void __ctype_init() noexcept {}
void _dl_init_paths(char const*, char const*, char const*, char const*) {}

}  // extern "C"

#ifdef _GLIBCXX_ASSERTIONS
namespace std {

// NOLINTNEXTLINE(cert-dcl58-cpp): the library's own would link <stdio.h> again
void __glibcxx_assert_fail(char const* file, int line, char const* function, char const* expression) noexcept {
    fail_assertion(expression, file, line, function);
}

}  // namespace std
#endif
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
