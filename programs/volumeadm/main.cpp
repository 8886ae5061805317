// volumeadm: the volumes of this host.

#include <algorithm>
#include <array>
#include <csignal>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "lib/base/default_signals.h"
#include "lib/base/error_kinds.h"
#include "lib/base/new_calls.h"
#include "lib/base/standard_descriptors.h"
#include "lib/base/write_all.h"
#include "lib/command/mistakes.h"
#include "lib/command/words.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "programs/volumeadm/command_line.h"

namespace triton::program {

namespace {

int failed(Error const& error, bool as_json) {
    std::string text = "volumeadm: " + text::printable(error.text()) + "\n";
    for (std::string const& detail : error.details)
        text += "  " + text::printable(detail) + "\n";
    if (as_json) {
        json::Writer out;
        out.open('{').key("error").open('{').member("code", row_of(error.kind).name).member("message", error.text());
        text = std::move(out.key("details").list(error.details).close('}').close('}')).text() + "\n";
    }
    (void)write_all(STDERR_FILENO, text);  // nobody to tell
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

/// Answers `volumeadm help` or `volumeadm help COMMAND`.
int help(CLI::App const& app, std::string const* word, bool as_json) {
    if (!word) return told(usage_text(), as_json);
    if (!find_command(*word)) return failed(command::no_such_command("volumeadm", *word, command_names()), as_json);
    return told(app.get_subcommand(*word)->help(), as_json);
}

int run(std::vector<std::string> const& words) {
    Options options;
    Command const* chosen = nullptr;
    CLI::App app{"The volumes of this host", "volumeadm"};
    build(app, options, chosen);
    std::size_t const place = command::place_of_command(words, valued_options);
    std::string const* const word = place < words.size() ? &words[place] : nullptr;
    bool const as_json = std::ranges::find(words, "-E") != words.end();
    auto const before = std::span(words).first(place);
    if (std::ranges::any_of(before, command::asks_for_help)) return help(app, nullptr, as_json);
    if (std::ranges::any_of(before, command::asks_for_version)) return told("volumeadm " TRITON_VERSION "\n", as_json);
    if (!word) return failed(command::missing_command("volumeadm"), as_json);
    if (*word == "help") return help(app, place + 1 < words.size() ? &words[place + 1] : nullptr, as_json);
    if (!find_command(*word)) return failed(command::no_such_command("volumeadm", *word, command_names()), as_json);
    try {
        app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (CLI::CallForHelp const&) {
        return told(app.get_subcommand(*word)->help(), as_json);
    } catch (CLI::CallForVersion const&) {
        return told("volumeadm " TRITON_VERSION "\n", as_json);
    } catch (CLI::ParseError const& error) {
        return failed(command::mistake(app, error), options.has_json_errors);
    }
    if (auto const prepared = prepare_host_program(NeededCalls::files); !prepared)
        return failed(prepared.error(), options.has_json_errors);
    Outcome const outcome = chosen->run(options);
    return outcome ? 0 : failed(outcome.error(), options.has_json_errors);
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) {
    triton::reserve_missing_standard_descriptors();
    triton::take_default_signals();
    std::signal(SIGPIPE, SIG_IGN);  // write(2) tells when a reader has gone
    return triton::program::run({argv + 1, argv + argc});
}
