#pragma once

#include <csignal>

namespace triton {

// Written without libc and without pointers in tables, because the wrap mode uses it before libc has started.

struct SignalName {
    char name[8];  // without "SIG"
    int number;
};

inline constexpr SignalName signal_names[] = {
    {"HUP", SIGHUP},   {"INT", SIGINT},       {"QUIT", SIGQUIT}, {"ILL", SIGILL},     {"TRAP", SIGTRAP},
    {"ABRT", SIGABRT}, {"IOT", SIGABRT},      {"BUS", SIGBUS},   {"FPE", SIGFPE},     {"KILL", SIGKILL},
    {"USR1", SIGUSR1}, {"SEGV", SIGSEGV},     {"USR2", SIGUSR2}, {"PIPE", SIGPIPE},   {"ALRM", SIGALRM},
    {"TERM", SIGTERM}, {"STKFLT", 16},        {"CHLD", SIGCHLD}, {"CONT", SIGCONT},   {"STOP", SIGSTOP},
    {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN},     {"TTOU", SIGTTOU}, {"URG", SIGURG},     {"XCPU", SIGXCPU},
    {"XFSZ", SIGXFSZ}, {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF}, {"WINCH", SIGWINCH}, {"IO", SIGIO},
    {"POLL", SIGIO},   {"PWR", SIGPWR},       {"SYS", SIGSYS},
};

inline constexpr int rtmin = 34;  // SIGRTMIN of glibc and musl; the kernel's 32 and 33 are the threading library's
inline constexpr int rtmax = 64;

/// A non-negative decimal number of at most five digits, or -1.
constexpr int parse_small_number(char const* text, char const* end) {
    if (text == end || end - text > 5) return -1;
    int value = 0;
    for (; text != end; ++text) {
        if (*text < '0' || *text > '9') return -1;
        value = value * 10 + (*text - '0');
    }
    return value;
}

constexpr bool same_letters(char const* text, char const* end, char const* name) {
    for (; text != end && *name; ++text, ++name) {
        char const upper = *text >= 'a' && *text <= 'z' ? static_cast<char>(*text - 'a' + 'A') : *text;
        if (upper != *name) return false;
    }
    return text == end && !*name;
}

/// A signal from "TERM", "SIGTERM", "15", "RTMIN+3" or "RTMAX-1", in any case; -1 when there is no such signal.
constexpr int parse_signal(char const* text, char const* end) {
    if (int const number = parse_small_number(text, end); number >= 0)
        return number >= 1 && number <= rtmax ? number : -1;
    if (end - text > 3 && same_letters(text, text + 3, "SIG")) text += 3;
    for (SignalName const& row : signal_names) {
        if (same_letters(text, end, row.name)) return row.number;
    }
    if (end - text >= 5 && (same_letters(text, text + 5, "RTMIN") || same_letters(text, text + 5, "RTMAX"))) {
        bool const from_min = same_letters(text, text + 5, "RTMIN");
        int const base = from_min ? rtmin : rtmax;
        text += 5;
        if (text == end) return base;
        if (*text != (from_min ? '+' : '-')) return -1;
        int const offset = parse_small_number(text + 1, end);
        if (offset < 0 || offset > rtmax - rtmin) return -1;
        return from_min ? base + offset : base - offset;
    }
    return -1;
}

/// SIGNAL:SIGNAL, where the second may be 0 (drop). Returns false when it is something else.
constexpr bool parse_rewrite(char const* text, char const* end, int& from, int& to) {
    char const* colon = text;
    while (colon != end && *colon != ':')
        ++colon;
    if (colon == end) return false;
    from = parse_signal(text, colon);
    to = colon + 2 == end && colon[1] == '0' ? 0 : parse_signal(colon + 1, end);
    return from > 0 && to >= 0;
}

}  // namespace triton
