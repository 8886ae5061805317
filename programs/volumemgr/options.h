#pragma once

#include <span>
#include <string>

#include "host/volume/core.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/log/log.h"

namespace triton::program {

struct ManagerOptions {
    std::string root = {};
    std::string socket = {};  ///< empty: the usual one
    Duration idle = std::chrono::seconds(60);
    Duration collect_after = std::chrono::seconds(3600);
    Duration keep_content_for{};
    Duration retry_after = std::chrono::seconds(600);
    log::LogLevel log_level = log::LogLevel::info;
    log::LogFormat log_format = log::LogFormat::automatic;
    std::string text = {};  ///< instead of running, print this

    [[nodiscard]] volume::Settings settings() const;
};

/// Errors: `invalid`, one line that names the option.
Result<ManagerOptions> parse_options(std::span<char const* const> arguments, char const* const* environment);

}  // namespace triton::program
