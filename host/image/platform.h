#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace triton::image {

/// The platform of an image. Source: OCI image-spec, image-index.md, "platform".
struct Platform {
    std::string os = "linux";
    std::string architecture;  ///< as Go names it: "amd64", "arm64"
    std::string variant = {};  ///< "v7", "v8", "v2"; empty: the architecture's first

    /// "linux/arm/v7"
    [[nodiscard]] std::string text() const;
    bool operator==(Platform const&) const = default;
};

/// The same in the words of Go: "linux/aarch64/8" is "linux/arm64/v8".
Platform canonical(Platform const& platform);

/// Reads "linux/amd64", "linux/arm/v7", "arm64", also in other words ("x86_64"). Errors: `invalid`.
Result<Platform> parse_platform(std::string_view text);

/// The platform of this machine, by uname(2).
Platform host_platform();

/// How well an image of platform `offered` runs on `wanted`: higher is better; nullopt: not at all. An older variant of
/// the architecture runs on a newer one, never the reverse.
std::optional<int> fitness(Platform const& offered, Platform const& wanted);

/// The best of an index's platforms; the first of equal ones. If none fits, those that name no platform (nullopt, or
/// one without an architecture): what they are for is in their configurations.
std::vector<std::size_t> select_platforms(std::span<std::optional<Platform> const> offered, Platform const& wanted);

}  // namespace triton::image
