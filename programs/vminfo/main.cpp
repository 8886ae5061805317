// vminfo: what runs here and what has just changed, as vminfod knows it.

#include <algorithm>
#include <array>
#include <csignal>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "lib/base/error_kinds.h"
#include "lib/base/standard_descriptors.h"
#include "lib/base/write_all.h"
#include "lib/command/mistakes.h"
#include "lib/command/words.h"
#include "lib/json/text.h"
#include "programs/vminfo/command_line.h"

namespace triton::program {

namespace {

int failed(Error const& error, bool as_json) {
    (void)write_all(STDERR_FILENO, machine::error_text(error, as_json));  // nobody to tell
    return row_of(error.kind).exit_code;
}

/// Prints a text that was asked for.
int told(std::string_view text, bool as_json) {
    auto const printed = print(text);
    return printed ? 0 : failed(printed.error(), as_json);
}

constexpr std::array<std::string_view, 2> valued_options{"--root", "--socket"};

std::vector<std::string_view> command_names() {
    std::vector<std::string_view> names;
    for (Command const& command : commands())
        names.push_back(command.name);
    return names;
}

/// Answers `vminfo help` or `vminfo help COMMAND`.
int help(CLI::App const& app, std::string const* word, bool as_json) {
    if (!word) return told(usage_text(), as_json);
    if (!find_command(*word)) return failed(command::no_such_command("vminfo", *word, command_names()), as_json);
    return told(app.get_subcommand(*word)->help(), as_json);
}

int run(std::vector<std::string> const& words) {
    Options options;
    Command const* chosen = nullptr;
    CLI::App app{"What runs here, and what has just changed", "vminfo"};
    build(app, options, chosen);
    std::size_t const place = command::place_of_command(words, valued_options);
    std::string const* const word = place < words.size() ? &words[place] : nullptr;
    bool const as_json = std::ranges::find(words, "-E") != words.end();
    auto const before = std::span(words).first(place);
    if (std::ranges::any_of(before, command::asks_for_help)) return help(app, nullptr, as_json);
    if (std::ranges::any_of(before, command::asks_for_version)) return told("vminfo " TRITON_VERSION "\n", as_json);
    if (!word) return failed(command::missing_command("vminfo"), as_json);
    if (*word == "help") return help(app, place + 1 < words.size() ? &words[place + 1] : nullptr, as_json);
    if (!find_command(*word)) return failed(command::no_such_command("vminfo", *word, command_names()), as_json);
    try {
        app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (CLI::CallForHelp const&) {
        return told(app.get_subcommand(*word)->help(), as_json);
    } catch (CLI::CallForVersion const&) {
        return told("vminfo " TRITON_VERSION "\n", as_json);
    } catch (CLI::ParseError const& error) {
        return failed(command::mistake(app, error), options.has_json_errors);
    }
    Outcome const outcome = chosen->run(options);
    return outcome ? 0 : failed(outcome.error(), options.has_json_errors);
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) {
    triton::reserve_missing_standard_descriptors();
    std::signal(SIGPIPE, SIG_IGN);  // write(2) tells when a reader has gone
    return triton::program::run({argv + 1, argv + argc});
}
