#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "sidecar/agent/options.h"

namespace triton::agent {

/// Where the main container has the binaries: BINARY_DIR. nullopt without a version file where that decides, which
/// matters only to those who substitute it.
std::optional<std::string> main_binary_directory(SubstitutionOptions const& options);

struct Substitutions {
    std::string json;
    std::vector<std::string> problems;  ///< of lines of the environment file, which are left out
};

/// What /substitutions answers: a JSON object with the names that a monitor conf may use, as the shipped program has
/// it. A standard name without a value is "", a further one null. Errors: the environment file cannot be read; no
/// address of the family that is asked for.
Result<Substitutions> read_substitutions(SubstitutionOptions const& options,
                                         std::optional<std::string> const& binary_directory,
                                         char const* const* environment);

}  // namespace triton::agent
