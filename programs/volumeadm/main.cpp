// volumeadm: the volumes of this host.

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include <unistd.h>

#include "lib/base/default_signals.h"
#include "lib/base/error_kinds.h"
#include "lib/base/new_calls.h"
#include "lib/base/standard_descriptors.h"
#include "lib/base/write_all.h"
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
    CLI::App app{"The volumes of this host", "volumeadm"};
    build(app, options, chosen);
    std::string const* const word = first_word(words);
    bool const as_json = std::ranges::find(words, "-E") != words.end();
    bool const asks = !words.empty() && (words.front() == "-h" || words.front() == "--help");
    if (asks || (word && *word == "help")) return told(usage_text(), as_json);
    if (!words.empty() && words.front() == "--version") return told("volumeadm " TRITON_VERSION "\n", as_json);
    if (!word || !find_command(*word)) {
        int const code = failed(
            word ? fail("there is no command " + json::quoted(*word)).error() : fail("a command is missing").error(),
            as_json);
        if (!as_json) (void)write_all(STDERR_FILENO, usage_text());  // nobody to tell
        return code;
    }
    try {
        app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (CLI::CallForHelp const&) {
        return told(app.get_subcommand(*word)->help(), as_json);
    } catch (CLI::CallForVersion const&) {
        return told("volumeadm " TRITON_VERSION "\n", as_json);
    } catch (CLI::ParseError const& error) {
        return failed(fail(error.what()).error(), options.has_json_errors);
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
