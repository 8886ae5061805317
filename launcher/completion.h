#pragma once

#include <string_view>

#include "launcher/options.h"

namespace triton::launcher {

/// The completion script for a shell, as it stands in completions/.
std::string_view completion_script(Shell shell);

}  // namespace triton::launcher
