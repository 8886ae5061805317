#pragma once

#include <expected>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "programs/imgadm/commands.h"

namespace triton::program {

/// A parsed command line.
struct CommandLine {
    GlobalOptions options;
    Run run;  ///< empty: `text` is all there is to do
    std::string text;
};

/// Reads the words after the program's name. Errors: usage, and what was probably meant.
std::expected<CommandLine, Failure> parse_command_line(std::vector<std::string> const& given);

/// The command line's grammar, for what walks it: completions, documents, tests.
std::unique_ptr<CLI::App> command_line_grammar(GlobalOptions& options, Run& run);

}  // namespace triton::program
