#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::launcher {

class Ctl;

/// What words a command takes.
enum class CtlTakes : std::uint8_t {
    nothing,
    maybe_targets,
    one_target,
    targets,
    signal_and_targets,
    path,
    maybe_kind,
    maybe_command
};

/// Everything about a command of `ctl`.
struct CtlCommand {
    std::string_view name;
    CtlTakes takes;
    std::string_view options;  ///< that it takes beside those that all take, each with a blank on both sides
    std::string_view usage;    ///< empty: not in the help
    std::string_view help;
    Result<> (Ctl::*run)();
};

/// The table of them, in the order of the help.
std::span<CtlCommand const> ctl_commands();

/// NAME, NAME:N or @GROUP, as it is typed; "-" is the unnamed program.
struct CtlTarget {
    std::string program;
    std::optional<std::uint32_t> process;
    bool is_group = false;  ///< "@web": then `program` is its name

    bool operator==(CtlTarget const&) const = default;
};

/// A parsed command line of `ctl`.
struct CtlOptions {
    CtlCommand const* command = nullptr;  ///< with wants_help: what it is about, null: everything
    std::string socket;
    bool wants_help = false;
    bool is_json = false;
    bool shows_all = false;                       ///< status, top, names: the launcher's own programs, too
    bool waits = true;                            ///< start, stop, restart
    bool starts_required = true;                  ///< start
    bool is_forced = false;                       ///< stop: in spite of those that require it
    bool stops_dependents = false;                ///< stop
    bool follows = false;                         ///< logs, attach
    std::uint32_t lines = 10;                     ///< logs, attach
    std::string detach_keys = "\x10\x11";         ///< attach: the bytes that they send
    bool is_read_only = false;                    ///< attach
    std::string condition = "ready";              ///< wait
    std::optional<Duration> timeout;              ///< of the whole command
    Duration interval = std::chrono::seconds(1);  ///< top
    std::string signal;
    std::string path;          ///< upgrade
    std::string what = "all";  ///< stage: as the interface names it
    std::vector<CtlTarget> targets;
};

/// Reads the words after "ctl". `socket`: the default.
/// Errors: one line, for which the caller exits with 2.
Result<CtlOptions> parse_ctl(int argc, char const* const* argv, std::string socket);

/// The text of --help. `about`: a command; null: all of them.
std::string ctl_help(CtlCommand const* about);

/// As typed: "web:2".
std::string target_text(CtlTarget const& target);

}  // namespace triton::launcher
