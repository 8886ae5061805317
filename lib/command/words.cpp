#include "lib/command/words.h"

#include <algorithm>

#include "lib/base/nearest.h"

namespace triton::command {

namespace {

std::string where_to_look(std::string_view program) {
    return "; " + std::string(program) + " --help lists all commands";
}

}  // namespace

std::size_t place_of_command(std::span<std::string const> words, std::span<std::string_view const> valued) {
    std::size_t i = 0;
    while (i < words.size() && words[i].starts_with('-'))
        i += std::ranges::find(valued, words[i]) == valued.end() ? 1 : 2;
    return std::min(i, words.size());
}

bool asks_for_help(std::string_view word) { return word == "-h" || word == "--help" || word == "-?"; }

bool asks_for_version(std::string_view word) { return word == "-V" || word == "--version"; }

Error no_such_command(std::string_view program, std::string_view word, std::vector<std::string_view> known) {
    known.push_back("help");
    std::string text = "there is no command \"" + std::string(word) + "\"";
    auto const meant = nearest(word, known);
    text += meant ? "; did you mean \"" + std::string(*meant) + "\"?" : where_to_look(program);
    return fail(ErrorKind::invalid, std::move(text)).error();
}

Error missing_command(std::string_view program) {
    return fail(ErrorKind::invalid, "a command is missing" + where_to_look(program)).error();
}

}  // namespace triton::command
