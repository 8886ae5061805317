#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/limits.h"
#include "lib/json/reader.h"

namespace triton::config {

/// A configuration may be one document of several files, its layers: the first names the others by `include`. A later
/// layer changes what those before it say as a merge patch does (RFC 7396): objects are merged key by key, null takes a
/// key away, everything else is replaced.

/// One of the files.
struct Layer {
    std::string file;  ///< as problems name it; empty: the first, which the caller knows
    std::string text;
    bool is_including = false;  ///< the files that it includes follow it

    bool operator==(Layer const&) const = default;
};

inline constexpr std::size_t most_including_bytes = 64 << 10;  ///< of a document that includes others
inline constexpr std::size_t most_layers = 256;
inline constexpr std::size_t most_layer_bytes = 1 << 20;  ///< of all of them together

/// What a document includes, in its order: paths, relative to its own directory, whose last component may be a pattern
/// (glob(7)). Empty: nothing, or something invalid, as read() will say.
std::vector<std::string> includes_of(std::string_view text, Limits const& limits = {});

/// The layers of one document, read.
class Layers {
public:
    /// Reads all of them. Problems name the file, and those of syntax the line.
    Layers(std::span<Layer const> layers, Limits const& limits, json::Problems& problems);

    /// The merged document, without `include`. nullopt: one of them cannot be read.
    [[nodiscard]] std::optional<json::Node> merged() const;
    /// The file that a place ("programs.web.restart") comes from, or should: for an object, the one that began it.
    [[nodiscard]] std::string file_of(std::string_view where) const;

private:
    struct Read {
        std::string file;
        std::optional<json::Node> node;
    };
    std::vector<Read> layers_;
};

}  // namespace triton::config
