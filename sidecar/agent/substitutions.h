#pragma once

#include <string>

#include "lib/base/result.h"
#include "sidecar/agent/options.h"

namespace triton::agent {

/// What /substitutions answers: a JSON object with the names that a monitor conf may use, as the shipped program has
/// it. A standard name without a value is "", a further one null. Errors: the environment file cannot be read; no
/// address of the family that is asked for.
Result<std::string> substitutions_json(SubstitutionOptions const& options, char const* const* environment);

}  // namespace triton::agent
