#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "sidecar/options.h"

namespace triton::sidecar {

enum class CopyKind : std::uint8_t { verbatim, substituted, monitor_conf };

/// One file to be staged.
struct PlannedCopy {
    CopyKind kind = CopyKind::verbatim;
    std::string source;              ///< path; symbolic links are followed, as a mounted ConfigMap needs it
    std::string target;              ///< path inside the output directory, of plain components
    bool must_not_be_empty = false;  ///< --require-not-empty

    bool operator==(PlannedCopy const&) const = default;
};

struct StagePlan {
    std::vector<PlannedCopy> copies;      ///< no two with one target
    std::vector<std::string> errors;      ///< all of them, each ready to be shown; with one nothing is to be copied
    std::vector<std::string> unplaced;    ///< sources that an error left without a target: to be looked at, too
    bool is_main_container_same = false;  ///< sidecar: both versions are equal; see SameVersion
    /// Where in the output directory binaries go, or would go by a sidecar of this version; empty: not known.
    std::string binary_directory;
};

/// The meaning of the options. No system call.
///
/// Files and templates land under their base name: of sub/dir/name only the name stays, as in the shipped program.
/// The same file twice is one copy (also as ./name); two files for one target are an error. A library that is the
/// primary one too is copied under the primary name only (shipped, and right: a client must not load one library
/// twice).
/// `version`: of this container, or why it is not known, which is an error only where the version matters.
StagePlan plan(StageOptions const& options, Result<std::string> const& version);

/// "<directory>/<name>", with one slash between them.
std::string path_in(std::string_view directory, std::string_view name);

}  // namespace triton::sidecar
