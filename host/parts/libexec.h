#pragma once

#include <string>

#include "lib/base/result.h"

namespace triton::parts {

/// The path of a program of ours that people do not call: beside this one, as in a build tree or where TRITON_LIBEXEC
/// says, or in /usr/libexec/triton. Errors: `unavailable`: "find NAME".
Result<std::string> libexec_program(std::string const& name);

}  // namespace triton::parts
