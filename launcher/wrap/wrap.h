#pragma once

#include <cstdint>

namespace triton::launcher {

/// Wrap mode: one command under an init that forwards signals, reaps orphans and passes the exit code on; what tini,
/// dumb-init, catatonit and docker-init do.
///
/// The whole of it is freestanding: it runs before libc has started, so that a container pays for an option parser, a
/// logger or a locale only when it asks for one. It may call nothing of libc, touch no thread-local variable (errno,
/// the stack protector) and hold no pointer in initialised data, since nothing has been relocated yet. The build checks
/// that its object has no undefined symbols.

/// What started it: tini and dumb-init differ in their defaults, and need no `--` before the command.
enum class Flavor : std::uint8_t { triton_launch, tini, dumb_init, catatonit };

struct WrapOptions {
    std::uint8_t rewrite[65];   ///< received signal -> sent signal; 0: drop. Filled by parse_wrap
    std::uint32_t remapped[8];  ///< bit set of 256 exit codes that become 0
    std::int64_t stop_timeout;  ///< nanoseconds from a forwarded stop signal to SIGKILL; 0: never
    int command;                ///< index of the command in argv
    int parent_death_signal;    ///< 0: none
    int verbosity;
    Flavor flavor;
    bool group;            ///< signals go to the command's process group
    bool session;          ///< the command gets a session of its own, and the terminal with it
    bool drops_separator;  ///< `PROGRAM -- ARGS` under tini's or catatonit's name: the word after the command is not an
                           ///< argument of it
    bool subreaper;        ///< asked for: not to get it is an error
    bool warn_on_reap;
    bool pause;                     ///< there is no command: reap until a stop signal comes
    char const* stop_timeout_text;  ///< as given; parsing a duration is left to code with libc
};

enum class WrapParse : std::uint8_t {
    wrap,         ///< options are filled
    not_wrap,     ///< another mode's command line
    information,  ///< --help, --version or -l is before the command
    unknown_option,
    missing_value,
    unexpected_value,
    bad_signal,
    bad_rewrite,
    bad_exit_code,
    bad_boolean,
    no_command,
    needless_command,
};

/// The parsed command line, and where it is wrong: `argv[index]`, or `envp[index]` if `in_environment`.
struct WrapParsed {
    WrapParse result;
    int index;
    bool in_environment;
};

/// The exit code that stands for one of the command: 0 for those of -e, otherwise the same.
constexpr int remapped(WrapOptions const& options, int code) {
    return (options.remapped[code / 32] >> (code % 32) & 1U) != 0 ? 0 : code;
}

/// `options` is zeroed by the caller.
WrapParsed parse_wrap(int argc, char** argv, char** envp, WrapOptions& options);

/// Gets reports of what happens (-v, -w); all may be null.
struct WrapObserver {
    void (*started)(int pid);
    void (*forwarded)(int signo, int pid);
    void (*reaped)(int pid, int status);
    void (*timed_out)(int pid);
};

enum class WrapStage : std::uint8_t { none, subreaper, parent_death_signal, clone, process_group, session, execute };

/// Why a command was not started. No error: the command's exit code.
struct WrapOutcome {
    WrapStage stage;
    int error;  ///< errno
    int code;
};

/// Runs argv[options.command] until it ends. `argv` and `envp` may be changed in place (LISTEN_PID).
WrapOutcome run_wrap(WrapOptions const& options, char** argv, char** envp, WrapObserver const* observer);

/// One row an option: what parses it, and what --help, the errors and the completions print.
struct WrapOptionRow {
    char short_name;  // 0: none
    char long_name[24];
    char value_name[10];  // "": takes none
    char help[100];
};
enum class WrapOption : std::uint8_t {
    kill_group,
    single_child,
    subreaper,
    parent_death_signal,
    warn_on_reap,
    verbose,
    remap_exit,
    rewrite,
    setsid,
    stop_timeout,
    help,
    version,
    license,
    pause,
};
inline constexpr WrapOptionRow wrap_option_rows[] = {
    {'g', "kill-group", "", "forward signals to the command's process group, not only to the command"},
    {'c', "single-child", "", "forward signals to the command only (the default except under the name dumb-init)"},
    {'s', "subreaper", "", "fail if neither PID 1 nor able to become a subreaper (which is tried in any case)"},
    {'p', "parent-death-signal", "SIGNAL", "receive SIGNAL, and forward it, when the parent process dies"},
    {'w', "warn-on-reap", "", "print a line when an orphan is reaped"},
    {'v', "verbose", "", "report what is done (twice: also every forwarded signal)"},
    {'e', "remap-exit", "CODE", "exit with 0 when the command exits with CODE (may be repeated)"},
    {'r', "rewrite", "A:B", "forward signal B when signal A arrives; 0 for B drops it (may be repeated)"},
    {0, "setsid", "", "run the command in its own session and give it the terminal"},
    {0, "stop-timeout", "DURATION", "send SIGKILL this long after TERM, INT or QUIT was forwarded (default: never)"},
    {'h', "help", "", "show this help"},
    {'V', "version", "", "show version and commit"},
    {'l', "license", "", "show the licence"},
    {'P', "pause", "", "run no command: reap orphans until TERM, INT or QUIT (the pause container of a pod)"},
};

}  // namespace triton::launcher
