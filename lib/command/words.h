#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

/// The frame that the commands of a host have in common: what their first words mean, and what is said of a mistake.
namespace triton::command {

/// The place of a command's name among the words of a line: options of the whole program may stand before it.
/// words.size(): there is none. `valued`: the options that are followed by a value.
std::size_t place_of_command(std::span<std::string const> words, std::span<std::string_view const> valued);

/// -h, --help, -?
bool asks_for_help(std::string_view word);
/// -V, --version
bool asks_for_version(std::string_view word);

/// A name that no command has: "there is no command "creat"; did you mean "create"?", or where to find the commands.
/// `invalid`.
Error no_such_command(std::string_view program, std::string_view word, std::vector<std::string_view> known);
/// A line without a command: one line that says where the commands are listed. `invalid`.
Error missing_command(std::string_view program);

}  // namespace triton::command
