#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/launch_options.h"

namespace triton::launcher {

struct CheckOptions {
    std::string configuration_path;
    SourceOptions source;
    std::optional<std::uint32_t> process_number;
    bool is_strict = false;
    bool as_json = false;
    bool is_merged = false;                 ///< print the document instead, merged with what it includes
    std::vector<std::string> remarks = {};  ///< on other things than the configuration, to be printed with those on it
};

/// What `check` prints and its exit code: 0, or 1 when something is wrong with the content.
struct CheckResult {
    std::string output;  ///< for standard output
    std::string errors;  ///< for standard error; JSON goes to the output in either case
    int exit_code = 0;
};

/// Reads a configuration as launch mode would and says what it would run, or everything that is wrong.
/// Unknown keys and keys without effect, which launch mode tolerates, are errors here.
CheckResult check(CheckOptions const& options, char const* const* environment);

}  // namespace triton::launcher
