#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace triton::program {

/// What "volumes" in /etc/triton/triton.json says. An option of the command line or the environment goes before it.
struct VolumesConfiguration {
    std::optional<milliseconds> idle = {};
    std::optional<milliseconds> collect_after = {};
    std::optional<milliseconds> keep_content_for = {};
    std::optional<milliseconds> retry_after = {};
    std::size_t workers = 4;           ///< threads that do jobs
    milliseconds stuck_after{30'000};  ///< without a sign of life, after which another thread takes a worker's place
    std::uint64_t reserve = 64 << 20;  ///< bytes of the pool's file system that stay free
    double overcommit = 1.0;           ///< how many times the free space is promised to volumes
    bool has_vault = false;            ///< what it is reads image::read_site()

    bool operator==(VolumesConfiguration const&) const = default;
};

/// Without the file, or without "volumes" in it, all is as by default. Errors: `invalid`: "<path> is not a
/// configuration", with the places of what is wrong.
Result<VolumesConfiguration> read_volumes_configuration(std::string const& root);
Result<VolumesConfiguration> parse_volumes_configuration(std::string_view text, std::string const& path);

}  // namespace triton::program
