#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "launcher/plan/configuration_source.h"

namespace triton::launcher {

// What an author may not have meant, although it works.

/// Whom we may signal. Source: kill(2).
struct SignalRights {
    bool may_signal_all = true;  ///< CAP_KILL is effective
    uid_t real_user = 0;
    uid_t effective_user = 0;

    static SignalRights own();
};

/// Whether a stop signal to this command would reach a shell alone: one that waits for what it has started, or would
/// have to. `words`: with the program. The script is not parsed, only looked at; one that sets a trap knows better.
[[nodiscard]] bool keeps_signals_from_children(std::span<std::string const> words);

/// The signal at which a well-known program ends gracefully, when that is not TERM: the STOPSIGNAL of its image.
[[nodiscard]] std::optional<std::string> customary_stop_signal(std::string const& program);

/// The first part of a command's words that only a shell would replace: "${PORT}", "$(POD_IP)"; of a command that
/// runs a shell, or another program that replaces such parts, none. `words`: with the program.
[[nodiscard]] std::optional<std::string> unexpanded_part(std::span<std::string const> words);

/// About the words of all commands: "programs.web: ...".
[[nodiscard]] std::vector<std::string> remarks_on_words(Accepted const& accepted);
/// About the stops of all programs: "programs.web: ...".
[[nodiscard]] std::vector<std::string> remarks_on_stops(Accepted const& accepted);
/// Programs that run as users whom we may not signal.
[[nodiscard]] std::vector<std::string> remarks_on_rights(Accepted const& accepted, SignalRights const& rights);

}  // namespace triton::launcher
