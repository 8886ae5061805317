#pragma once

#include <optional>
#include <span>
#include <string>

#include "host/volume/core.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/log/log.h"
#include "programs/volumemgr/configuration.h"

namespace triton::program {

struct ManagerOptions {
    std::string root = {};
    std::string socket = {};  ///< empty: the usual one
    // Zero or more; none: what triton.json says, else the default.
    std::optional<Duration> idle = {};
    std::optional<Duration> collect_after = {};
    std::optional<Duration> keep_content_for = {};
    std::optional<Duration> retry_after = {};
    log::LogLevel log_level = log::LogLevel::info;
    log::LogFormat log_format = log::LogFormat::automatic;
    std::string text = {};  ///< instead of running, print this

    [[nodiscard]] volume::Settings settings(VolumesConfiguration const& configuration) const;
    [[nodiscard]] Duration idle_time(VolumesConfiguration const& configuration) const;
};

/// Errors: `invalid`, one line that names the option.
Result<ManagerOptions> parse_options(std::span<char const* const> arguments, char const* const* environment);

}  // namespace triton::program
