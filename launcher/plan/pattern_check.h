#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace triton::launcher {

/// A regular expression of a configuration, and where it stands.
struct PatternToCheck {
    std::string place;
    std::string pattern;

    bool operator==(PatternToCheck const&) const = default;
};

/// Asks the agent, which has RE2, by `AGENT check-pattern PATTERN..`, and waits for it. To be called where waiting is
/// allowed: in a tool, or in a helper process that may be killed.
/// Returns: one line for each pattern that is none, "programs.web.readiness.pattern: \"(\" is not a regular
/// expression: missing ): (". Errors: the agent cannot be asked, "cannot execute /usr/bin/triton-launch-agent: No such
/// file or directory".
Result<std::vector<std::string>> faults_of_patterns(std::string const& agent_path,
                                                    std::vector<PatternToCheck> const& patterns);

}  // namespace triton::launcher
