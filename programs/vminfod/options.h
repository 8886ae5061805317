#pragma once

#include <optional>
#include <span>
#include <string>

#include "lib/base/result.h"
#include "lib/log/log.h"
#include "lib/net/listen_address.h"

namespace triton::program {

/// What vminfod was started with, and what the host's configuration says.
struct DaemonOptions {
    std::string root;
    std::string listen;  ///< as given; empty: what the configuration says
    std::string socket;  ///< path; empty: /run/triton/vminfod.socket below the root
    log::LogLevel log_level = log::LogLevel::info;
    log::LogFormat log_format = log::LogFormat::automatic;
    std::string text;  ///< of --help or --version, which is everything that is wanted; empty: run
};

/// Errors: invalid; one line that names the option.
Result<DaemonOptions> parse_options(std::span<char const* const> arguments, char const* const* environment);

/// What "info" in /etc/triton/triton.json says.
struct InfoConfiguration {
    std::optional<std::string> listen;  ///< nullopt: nowhere; not 9090 as in RFD 39, see decision 42
    bool has_open_secrets = false;
};

/// Without a file, or without "info" in it, all is as by default.
/// Errors: `invalid`, with the place.
Result<InfoConfiguration> read_configuration(std::string const& root);

/// Errors: `invalid` text; an address that other hosts reach.
Result<net::ListenAddress> parse_loopback_address(std::string const& text);

}  // namespace triton::program
