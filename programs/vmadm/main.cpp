#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/default_signals.h"
#include "lib/base/new_calls.h"
#include "lib/base/standard_descriptors.h"
#include "lib/base/write_all.h"
#include "lib/command/mistakes.h"
#include "lib/command/words.h"
#include "lib/json/text.h"
#include "programs/vmadm/command_line.h"

namespace triton::program {

namespace {

constexpr std::array<std::string_view, 1> valued_options{"--root"};

/// Turns `kill -TERM VM` into `kill -s TERM VM`.
void rewrite_signal(std::vector<std::string>& words, std::size_t command) {
    static constexpr auto others = std::to_array<std::string_view>({"-h", "-E", "-q", "-v", "-d"});
    for (std::size_t i = command + 1; i < words.size(); ++i) {
        std::string& word = words[i];
        bool const is_short = word.size() > 1 && word[0] == '-' && word[1] != '-';
        if (word == "-s") return;
        if (!is_short || std::ranges::find(others, word) != others.end()) continue;
        std::string const signal = word.substr(1);
        word = "-s";
        words.insert(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, signal);
        return;
    }
}

int wrong_usage(std::string const& text, bool as_json) {
    tell_error(fail(text).error(), as_json);
    return 2;
}

int told(std::string const& text, bool as_json) {
    if (write_all(STDOUT_FILENO, text) || errno == EPIPE) return 0;
    tell_error(fail(errno, "write the output").error(), as_json);
    return 1;
}

/// Answers a line without a command, or with an unknown one.
int without_command(std::string const* word, bool as_json) {
    std::vector<std::string_view> names;
    for (Command const& command : commands())
        names.push_back(command.name);
    tell_error(word ? command::no_such_command("vmadm", *word, std::move(names)) : command::missing_command("vmadm"),
               as_json);
    return 2;
}

/// Answers `vmadm help` or `vmadm help COMMAND`.
int help(CLI::App const& app, std::string const* word, bool as_json) {
    if (!word) return told(usage_text(), as_json);
    Command const* const command = find_command(*word);
    if (!command) return without_command(word, as_json);
    return told(app.get_subcommand(std::string(command->name))->help(), as_json);
}

int run(std::vector<std::string> words) {
    std::size_t const place = command::place_of_command(words, valued_options);
    Command const* const command = place < words.size() ? find_command(words[place]) : nullptr;
    if (command && command->name == "kill") rewrite_signal(words, place);
    std::string const* const word = place < words.size() ? &words[place] : nullptr;
    auto const before = std::span(words).first(place);
    // after `exec VM` the words belong to another program
    auto const own = command && command->takes_command ? before : std::span(words);
    bool const as_json = std::ranges::find(own, "-E") != own.end();

    Options options;
    Command const* chosen = nullptr;
    CLI::App app{"Life cycle of machines", "vmadm"};
    build(app, options, chosen);
    if (std::ranges::any_of(before, command::asks_for_version)) return told("vmadm " TRITON_VERSION "\n", as_json);
    if (std::ranges::any_of(before, command::asks_for_help)) return help(app, nullptr, as_json);
    if (word && *word == "help") return help(app, place + 1 < words.size() ? &words[place + 1] : nullptr, as_json);
    if (word ? !command : words.empty()) return without_command(word, as_json);
    try {
        std::vector<std::string> reversed(words.rbegin(), words.rend());
        app.parse(std::move(reversed));
    } catch (CLI::CallForHelp const&) {
        return told(app.get_subcommand(std::string(command->name))->help(), as_json);
    } catch (CLI::CallForVersion const&) {
        return told("vmadm " TRITON_VERSION "\n", as_json);
    } catch (CLI::RequiredError const& error) {
        return word ? wrong_usage(error.what(), as_json) : without_command(word, as_json);
    } catch (CLI::ParseError const& error) {
        return wrong_usage(command::mistake(app, error).text(), as_json);
    }
    if (!chosen->is_for_anybody && ::geteuid() != 0)
        return wrong_usage("vmadm can only be run as root.", options.has_json_errors);
    options.command = chosen->name;
    if (auto const prepared = prepare_host_program(NeededCalls::files_and_mounts); !prepared) {
        tell_error(prepared.error(), options.has_json_errors);
        return 1;
    }
    Outcome const outcome = chosen->run(options);
    if (outcome) return 0;
    if (!outcome.error().is_told) tell_error(outcome.error().error, options.has_json_errors);
    return outcome.error().exit_code;
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) {
    triton::reserve_missing_standard_descriptors();
    triton::take_default_signals();
    std::signal(SIGPIPE, SIG_IGN);  // write(2) tells when a reader has gone
    ::umask(022);
    return triton::program::run({argv + 1, argv + argc});
}
