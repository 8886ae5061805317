#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/json/problem.h"

namespace triton::config {

/// A FoundationDB version: 7.3.63, 7.4.0-rc2.
struct Version {
    std::uint32_t major_number = 0;  // `major` and `minor` are macros in sys/sysmacros.h
    std::uint32_t minor_number = 0;
    std::uint32_t patch = 0;
    std::optional<std::uint32_t> release_candidate;

    /// The first `digits.digits.digits[-rcN]` anywhere in the text: "prerelease-6.2.11" is 6.2.11.
    static std::optional<Version> parse(std::string_view text);
    [[nodiscard]] std::string text() const;
    /// Whether servers of both versions can form one cluster: all but the patch number is equal.
    [[nodiscard]] bool protocol_compatible(Version const& other) const;

    bool operator==(Version const&) const = default;
};

/// Which versions the container's own binary serves.
enum class VersionMatch : std::uint8_t {
    automatic,  ///< its own, and those that speak its protocol as long as their own binary is missing
    exact,      ///< its own only
    protocol,   ///< its own and all that speak its protocol
};

/// How the version in a configuration becomes the path of a binary.
struct BinaryRule {
    VersionMatch match = VersionMatch::automatic;
    std::string container_version;
    std::string own_path;          ///< the container's own binary
    std::string shared_directory;  ///< where other versions are: bin/VERSION/NAME or VERSION/NAME inside it
};

/// Where the binary may be; the first that exists is meant.
struct BinaryCandidates {
    std::vector<std::string> paths;   ///< best first; never empty
    bool ends_with_stand_in = false;  ///< the last path is the container's own binary, which has another version

    bool operator==(BinaryCandidates const&) const = default;
};

/// Errors: with VersionMatch::protocol, "version: could not parse FDB version from 6.2", and the same for the
/// container.
std::expected<BinaryCandidates, json::Problem> choose_binary(BinaryRule const& rule,
                                                             std::string_view configured_version);

}  // namespace triton::config
