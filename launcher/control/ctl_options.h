#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::launcher {

enum class CtlVerb : std::uint8_t {
    status,
    describe,
    start,
    stop,
    restart,
    signal,
    reload,
    logs,
    events,
    wait,
    top,
    upgrade,
    stage,
    version,
    names,  ///< for shell completion; not in the help
    help
};

/// NAME or NAME:N, as it is typed; "-" is the unnamed program.
struct CtlTarget {
    std::string program;
    std::optional<std::uint32_t> process;

    bool operator==(CtlTarget const&) const = default;
};

/// What a command line of `ctl` asks for.
struct CtlOptions {
    CtlVerb verb = CtlVerb::help;
    std::string socket;
    bool is_json = false;
    bool shows_all = false;           ///< status, top, names: the launcher's own programs, too
    bool waits = true;                ///< start, stop, restart
    bool follows = false;             ///< logs
    std::uint32_t lines = 10;         ///< logs
    std::string condition = "ready";  ///< wait
    std::optional<Duration> timeout;
    Duration interval = std::chrono::seconds(1);  ///< top
    std::string signal;
    std::string path;          ///< upgrade
    std::string what = "all";  ///< stage: as the interface names it
    std::vector<CtlTarget> targets;
};

/// Reads what stands behind "ctl". `socket`: where nothing else is said.
/// Errors: one line, for which the caller exits with 2.
Result<CtlOptions> parse_ctl(int argc, char const* const* argv, std::string socket);

/// All of --help.
std::string ctl_help();

/// As typed: "web:2".
std::string target_text(CtlTarget const& target);

}  // namespace triton::launcher
