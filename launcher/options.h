#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/version.h"
#include "launcher/log.h"
#include "launcher/supervisor.h"

namespace triton::launcher {

/// No duration is longer: their sums stay far from overflow.
inline constexpr Duration longest_duration = std::chrono::hours(24 * 366);

/// How a ProcessConfiguration is read and which binary it means: what launch mode and `check` have in common.
struct SourceOptions {
    config::BinaryRule binary;     ///< an empty container version is taken for the configured one (`check` only)
    std::string environment_file;  ///< empty: none
    bool export_environment_file = false;
    std::uint32_t server_count = 1;
};

struct LaunchOptions {
    std::string configuration_path;
    SourceOptions source;
    SupervisorPolicy supervisor;
    Log::Settings log;
    std::array<std::uint8_t, 65> rewrite{};  ///< received signal -> what it counts as; 0: dropped
    int orphan_signal = 15;                  ///< 0: none
    int parent_death_signal = 0;             ///< 0: none
    bool kill_group = false;
    bool exit_on_bad_configuration = false;
    std::vector<std::string> warnings;  ///< to be logged once there is a log
};

struct CheckOptions {
    std::string configuration_path;
    SourceOptions source;
    std::optional<std::uint32_t> process_number;
    bool is_strict = false;
    bool as_json = false;
};

enum class Shell : std::uint8_t { bash, zsh, fish };

/// What a command line asks for beside wrap mode.
struct Command {
    enum class Kind : std::uint8_t { launch, check, schema, completion, print };
    Kind kind = Kind::launch;
    LaunchOptions launch;
    CheckOptions check;
    Shell shell = Shell::bash;
    std::string text;  ///< print: help or version, as it is
};

/// Reads a command line without `--`, and TRITON_LAUNCH_* from the environment.
/// Errors: one line that names the flag and what is wrong with it; the caller exits with 2.
Result<Command> parse_command_line(int argc, char const* const* argv);

/// "triton-launch 0.1.0 (1a2b3c4)"
std::string version_line();

}  // namespace triton::launcher
