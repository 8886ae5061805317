#include "programs/triton-launch/wrap_main.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/plan/version.h"
#include "lib/base/duration.h"
#include "lib/base/nearest.h"
#include "lib/base/signal_text.h"
#include "lib/log/log_output.h"
#include "programs/triton-launch/options.h"

namespace triton::program {

using namespace launcher;

namespace {

/// Writes a line without holding the init up: one that the reader of standard error does not take waits, or is dropped.
void say(std::string text, std::string_view prefix = "triton-launch: ") {
    static log::LogOutput standard_error{STDERR_FILENO};
    text.insert(0, prefix);
    text += '\n';
    standard_error.append(text);
    standard_error.flush();
}

constexpr WrapObserver observe_warnings{
    .started = nullptr,
    .forwarded = nullptr,
    .reaped = [](int pid, int) { say("Reaped zombie process with pid=" + std::to_string(pid)); },  // tini's words
    .timed_out = nullptr,
};
constexpr WrapObserver observe_verbose{
    .started = [](int pid) { say("started the command, pid " + std::to_string(pid)); },
    .forwarded = nullptr,
    .reaped = observe_warnings.reaped,
    .timed_out = [](int pid) { say("pid " + std::to_string(pid) + " did not stop in time: killing it"); },
};
constexpr WrapObserver observe_all{
    .started = observe_verbose.started,
    .forwarded = [](int signo, int pid) { say("forwarded " + signal_text(signo) + " to pid " + std::to_string(pid)); },
    .reaped = observe_verbose.reaped,
    .timed_out = observe_verbose.timed_out,
};
constexpr WrapObserver observe_nothing{};

std::string unknown_wrap_option(std::string const& given) {
    if (std::string const name = given.substr(0, given.find('=')); is_option_of_launch_mode(name))
        return name +
               " is an option of launch mode, which runs a command only with --input-dir or --input-monitor-conf";
    std::vector<std::string> names;
    for (WrapOptionRow const& row : wrap_option_rows)
        names.push_back(std::string("--") + row.long_name);
    std::vector<std::string_view> const views(names.begin(), names.end());
    std::string const name = given.substr(0, given.find('='));
    std::string text = "unknown option " + name + " before --";
    if (auto const meant = nearest(name, views)) return text.append("; did you mean ").append(*meant).append("?");
    return text + "; see triton-launch --help";
}

/// The wrong argument as the user wrote it, option and value.
std::string shown(WrapParsed const& parsed, int argc, char** argv, char** envp) {
    if (parsed.in_environment) return envp[parsed.index];
    std::string text = argv[parsed.index];
    bool const has_value = text.find('=') != text.npos || (text[1] != '-' && text.size() > 2);
    if (!has_value && parsed.index + 1 < argc) text.append(" ").append(argv[parsed.index + 1]);
    return text;
}

/// 2, or 1 under the name of a program that uses 1.
int code_of_wrong_usage(WrapOptions const& options) { return options.flavor == Flavor::triton_launch ? 2 : 1; }

/// Reports a wrong command line, and returns the exit code.
int wrong_usage(WrapParsed const& parsed, WrapOptions const& options, int argc, char** argv, char** envp) {
    std::string const what = shown(parsed, argc, argv, envp);
    switch (parsed.result) {
        case WrapParse::unknown_option: say(unknown_wrap_option(argv[parsed.index])); break;
        case WrapParse::missing_value: say(std::string(argv[parsed.index]) + ": its value is missing"); break;
        case WrapParse::unexpected_value: say(std::string(argv[parsed.index]) + ": takes no value"); break;
        case WrapParse::bad_signal: say(what + ": not a signal (for example TERM, 15, RTMIN+3)"); break;
        case WrapParse::bad_rewrite: say(what + ": not SIGNAL:SIGNAL (for example 15:3; SIGNAL:0 drops it)"); break;
        case WrapParse::bad_exit_code: say(what + ": not an exit code from 0 to 255"); break;
        case WrapParse::bad_boolean: say(what + ": neither true nor false"); break;
        case WrapParse::no_command: say("the command is missing; for example: triton-launch -- nginx"); break;
        case WrapParse::needless_command: say("--pause runs no command: " + what + " is too much"); break;
        case WrapParse::wrap:
        case WrapParse::not_wrap:
        case WrapParse::information: break;
    }
    return code_of_wrong_usage(options);
}

/// dockerd asks docker-init for its version and reads a number, " - git." and a commit: we give those of the tini that
/// this program behaves like. dockerd ignores what follows after another " - ".
/// Source: github.com/moby/moby, daemon/info_unix.go, parseInitVersion.
std::string version_text(Flavor flavor) {
    return (flavor == Flavor::tini ? "tini version 0.19.0 - git.de40ad0 - " : "") + version_line() + "\n";
}

int inform(char const* option, Flavor flavor) {
    std::string_view const text = option;
    bool const is_long = text.starts_with("--");
    char const* help[] = {"triton-launch", "--help"};
    std::string out;
    if (text == "--version" || (!is_long && text.find('V') != text.npos)) {
        out = version_text(flavor);
    } else if (text == "--license" || (!is_long && text.find_first_of("lL") != text.npos)) {
        out = "Apache License, Version 2.0: https://www.apache.org/licenses/LICENSE-2.0\n";
    } else if (auto command = parse_command_line(2, help)) {
        out = std::move(command->text);
    }
    (void)!::write(STDOUT_FILENO, out.data(), out.size());
    return 0;
}

std::string stage_text(WrapStage stage) {
    switch (stage) {
        case WrapStage::none: return "";
        case WrapStage::subreaper: return "become a subreaper";
        case WrapStage::parent_death_signal: return "set the parent death signal";
        case WrapStage::clone: return "clone";
        case WrapStage::process_group: return "make a process group";
        case WrapStage::session: return "make a session";
        case WrapStage::execute: return "execute";
    }
    std::unreachable();
}

/// The exit code for a command that execve(2) refuses. Under the name of another program it is that program's.
int code_of_no_command(int error, WrapOptions const& options) {
    switch (options.flavor) {
        case Flavor::triton_launch: return error == ENOENT ? 127 : 126;
        // tini's child ends with this code, so that -e counts for it.
        case Flavor::tini: return remapped(options, error == ENOENT ? 127 : error == EACCES ? 126 : 1);
        case Flavor::dumb_init: return 2;
        case Flavor::catatonit: return 1;
    }
    std::unreachable();
}

}  // namespace

int report_wrap_failure(WrapOutcome const& outcome, WrapOptions const& options, char const* command) {
    bool const in_execute = outcome.stage == WrapStage::execute;
    if (options.flavor == Flavor::dumb_init && in_execute) {
        say(std::string(command) + ": " + errno_text(outcome.error), "[dumb-init] ");
    } else {
        say("cannot start " + (*command ? std::string(command) : "\"\"") + ": " +
            (in_execute ? "" : stage_text(outcome.stage) + ": ") + errno_text(outcome.error));
    }
    return in_execute ? code_of_no_command(outcome.error, options) : 1;
}

int wrap_main(WrapParsed const& parsed, WrapOptions& options, int argc, char** argv, char** envp) {
    if (parsed.result == WrapParse::information) return inform(argv[parsed.index], options.flavor);
    if (parsed.result != WrapParse::wrap) return wrong_usage(parsed, options, argc, argv, envp);
    if (options.stop_timeout_text) {
        auto const timeout = parse_duration(options.stop_timeout_text);
        if (!timeout) {
            say("--stop-timeout: \"" + std::string(options.stop_timeout_text) +
                "\" is not a duration (for example 500ms, 10s)");
            return code_of_wrong_usage(options);
        }
        options.stop_timeout = std::min(*timeout, longest_duration).count();
    }
    WrapObserver const* const observer = options.verbosity >= 2   ? &observe_all
                                         : options.verbosity == 1 ? &observe_verbose
                                         : options.warn_on_reap   ? &observe_warnings
                                                                  : &observe_nothing;
    WrapOutcome const outcome = run_wrap(options, argv, envp, observer);
    return outcome.stage == WrapStage::none ? outcome.code
                                            : report_wrap_failure(outcome, options, argv[options.command]);
}

}  // namespace triton::program
