#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/plan/check.h"
#include "launcher/plan/launch_options.h"
#include "lib/base/result.h"
#include "programs/triton-launch/stage_flags.h"

namespace triton::program {

enum class Shell : std::uint8_t { bash, zsh, fish };

/// A parsed command line, except in wrap mode.
struct Command {
    /// upgrade_check: whether these options and the state on standard input would do; asked by the version that runs.
    enum class Kind : std::uint8_t { launch, upgrade_check, stage, check, schema, reference, completion, print };
    Kind kind = Kind::launch;
    launcher::LaunchOptions launch;
    StageCommand stage;
    launcher::CheckOptions check;
    Shell shell = Shell::bash;
    std::string text;  ///< print: help or version, as it is
};

/// "--input-dir", "-n": whether launch mode has it.
bool is_option_of_launch_mode(std::string_view option);

/// Reads a command line without `--`, and TRITON_LAUNCH_* from the environment.
/// Errors: one line that names the flag and what is wrong with it; the caller exits with 2.
Result<Command> parse_command_line(int argc, char const* const* argv);

}  // namespace triton::program
