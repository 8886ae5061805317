#pragma once

#include <string_view>

#include "programs/triton-launch/options.h"

namespace triton::program {

/// The completion script for a shell, as it is in completions/.
std::string_view completion_script(Shell shell);

}  // namespace triton::program
