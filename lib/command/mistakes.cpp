#include "lib/command/mistakes.h"

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "lib/base/nearest.h"

namespace triton::command {

namespace {

constexpr std::string_view number_range = " not in range ";  // of CLI::Range: "Value abc not in range 0 to 86400"
constexpr std::string_view value_word = "Value ";

std::string in_quotes(std::string_view text) { return "\"" + std::string(text) + "\""; }

/// The command that the line is about; the whole program when none was parsed.
CLI::App const& command_of(CLI::App const& app) {
    auto const parsed = app.get_subcommands();
    return parsed.empty() ? app : command_of(*parsed.front());
}

/// The name of a command with those above it, but that of the program: "volume create".
std::string title_of(CLI::App const& command) {
    CLI::App const* const parent = command.get_parent();
    if (!parent) return command.get_name();
    return parent->get_parent() ? title_of(*parent) + " " + command.get_name() : command.get_name();
}

std::string program_of(CLI::App const& command) {
    return command.get_parent() ? program_of(*command.get_parent()) : command.get_name();
}

/// "-o" and "--order" of a command and of those above it.
std::vector<std::string> options_of(CLI::App const& command) {
    std::vector<std::string> names;
    for (CLI::App const* one = &command; one; one = one->get_parent())
        for (CLI::Option const* option : one->get_options())
            for (std::string const& name : option->get_lnames())
                names.push_back("--" + name);
    return names;
}

std::string no_such_option(CLI::App const& command, std::string_view word) {
    std::string_view const name = word.substr(0, word.find('='));
    std::vector<std::string> const known = options_of(command);
    std::string text = title_of(command) + " has no option " + std::string(name);
    std::vector<std::string_view> const views(known.begin(), known.end());
    if (auto const meant = name.starts_with("--") ? nearest(name, views) : std::nullopt)
        return text + "; did you mean " + std::string(*meant) + "?";
    bool const is_program = command.get_parent() == nullptr;
    return text + "; " + program_of(command) + (is_program ? "" : " " + title_of(command)) + " --help lists them";
}

std::string unexpected_words(CLI::App const& app) {
    CLI::App const& command = command_of(app);
    std::vector<std::string> const words = app.remaining(true);
    auto const option = std::ranges::find_if(words, [](auto const& word) { return word.size() > 1 && word[0] == '-'; });
    if (option != words.end()) return no_such_option(command, *option);
    return title_of(command) + ": too many arguments: " + in_quotes(words.empty() ? "" : words.front());
}

/// Of "-t: Value abc not in range 0 to 86400"; other validators have a sentence of their own.
std::string bad_value(std::string_view text) {
    std::size_t const value = text.find(value_word);
    std::size_t const range = text.find(number_range);
    if (value == text.npos || range == text.npos || range < value) return std::string(text);
    std::size_t const begin = value + value_word.size();
    return std::string(text.substr(0, value)) + in_quotes(text.substr(begin, range - begin)) +
           " is not a number from " + std::string(text.substr(range + number_range.size()));
}

std::string sentence_of(CLI::App const& app, CLI::ParseError const& error) {
    std::string_view const text = error.what();
    auto const code = static_cast<CLI::ExitCodes>(error.get_exit_code());
    std::size_t const colon = text.find(": ");
    if (code == CLI::ExitCodes::ExtrasError) return unexpected_words(app);
    if (code == CLI::ExitCodes::ValidationError) return bad_value(text);
    if (code == CLI::ExitCodes::ArgumentMismatch && text.find(" required ") != text.npos && colon != text.npos)
        return std::string(text.substr(0, colon)) + " needs a value";
    // "Could not convert: -n = abc"
    std::size_t const equals = text.rfind(" = ");
    if (code == CLI::ExitCodes::ConversionError && colon != text.npos && equals != text.npos && equals > colon)
        return std::string(text.substr(colon + 2, equals - colon - 2)) + ": " + in_quotes(text.substr(equals + 3)) +
               " is not a number";
    return std::string(text);
}

}  // namespace

Error mistake(CLI::App const& app, CLI::ParseError const& error) {
    return fail(ErrorKind::invalid, sentence_of(app, error)).error();
}

}  // namespace triton::command
