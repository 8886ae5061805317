#pragma once

#include <span>
#include <string>

#include "lib/base/result.h"
#include "lib/log/log.h"

namespace triton::program {

/// What tritoncrid was started with.
struct CriOptions {
    std::string root;
    std::string listen;  ///< path of the socket; empty: /run/triton/cri.sock below the root
    log::LogLevel log_level = log::LogLevel::info;
    log::LogFormat log_format = log::LogFormat::automatic;
    std::string text;  ///< of --help or --version, which is everything that is wanted; empty: run
};

/// Errors: `invalid`; one line that names the option.
Result<CriOptions> parse_cri_options(std::span<char const* const> arguments, char const* const* environment);

}  // namespace triton::program
