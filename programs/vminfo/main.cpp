// vminfo: what runs here and what has just changed, as vminfod knows it.

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include <unistd.h>

#include "lib/base/error_kinds.h"
#include "lib/base/standard_descriptors.h"
#include "lib/base/write_all.h"
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

/// The first word that is not an option; two options are followed by a value.
std::string const* first_word(std::vector<std::string> const& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == "--root" || words[i] == "--socket")
            ++i;
        else if (!words[i].starts_with("-"))
            return &words[i];
    }
    return nullptr;
}

int run(std::vector<std::string> const& words) {
    Options options;
    Command const* chosen = nullptr;
    CLI::App app{"What runs here, and what has just changed", "vminfo"};
    build(app, options, chosen);
    std::string const* const word = first_word(words);
    bool const as_json = std::ranges::find(words, "-E") != words.end();
    bool const asks = !words.empty() && (words.front() == "-h" || words.front() == "--help" || words.front() == "-?");
    if (asks || (word && *word == "help")) return told(usage_text(), as_json);
    if (!words.empty() && words.front() == "--version") return told("vminfo " TRITON_VERSION "\n", as_json);
    if (!word || !find_command(*word)) {
        int const code = failed(
            word ? fail("Invalid command: " + json::quoted(*word) + ".").error() : fail("Missing command.").error(),
            as_json);
        if (!as_json) (void)write_all(STDERR_FILENO, usage_text());  // nobody to tell
        return code;
    }
    try {
        app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (CLI::CallForHelp const&) {
        return told(app.get_subcommand(*word)->help(), as_json);
    } catch (CLI::CallForVersion const&) {
        return told("vminfo " TRITON_VERSION "\n", as_json);
    } catch (CLI::ParseError const& error) {
        return failed(fail(error.what()).error(), options.has_json_errors);
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
