#pragma once

#include <string_view>

#include "lib/base/result.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace triton::command {

/// What is wrong with a line that the grammar refuses, in one sentence that names the place and the way out: "list has
/// no option --wrong; did you mean --order?", `-t: "abc" is not a number from 0 to 86400`, `list: too many arguments:
/// "x"`. `app`: it has parsed the line. `invalid`.
Error mistake(CLI::App const& app, CLI::ParseError const& error);

}  // namespace triton::command
