#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace CLI {
class App;
}

namespace triton::program {

/// The completion of "bash", "zsh" or "fish" for this grammar, made from it. Images that are installed are asked for
/// when the user wants one. Errors: `invalid` for another shell.
Result<std::string> completion_for(CLI::App const& app, std::string_view shell);

}  // namespace triton::program
