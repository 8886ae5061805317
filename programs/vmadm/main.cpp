#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "host/machine/listing.h"
#include "lib/base/write_all.h"
#include "lib/json/text.h"
#include "programs/vmadm/command_line.h"

namespace triton::program {

namespace {

void tell(Error const& error, bool as_json) {
    (void)write_all(STDERR_FILENO, machine::error_text(error, as_json));  // nobody to tell
}

/// `kill -TERM VM` is `kill -s TERM VM`.
void rewrite_signal(std::vector<std::string>& words) {
    bool is_kill = false;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string& word = words[i];
        bool const is_option = word.size() > 1 && word[0] == '-';
        if (!is_kill && !is_option) {
            if (word != "kill") return;
            is_kill = true;
        } else if (is_kill && is_option && word[1] != '-' && word != "-s" && word != "-h" && word != "-E" &&
                   word != "-q") {
            std::string const signal = word.substr(1);
            word = "-s";
            words.insert(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, signal);
            return;
        } else if (word == "-s") {
            return;
        }
    }
}

/// The first word that is not an option: --root has a value behind it.
std::string const* first_word(std::vector<std::string> const& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] == "--root")
            ++i;
        else if (!words[i].starts_with("-"))
            return &words[i];
    }
    return nullptr;
}

int wrong_usage(std::string const& text, bool as_json) {
    tell(fail(text).error(), as_json);
    return 2;
}

int run(std::vector<std::string> words) {
    rewrite_signal(words);
    Options options;
    Command const* chosen = nullptr;
    CLI::App app{"Life cycle of machines", "vmadm"};
    build(app, options, chosen);
    std::string const* const word = first_word(words);
    bool const asks = !words.empty() && (words.front() == "-h" || words.front() == "--help" || words.front() == "-?");
    if (asks || (word && *word == "help")) {
        (void)write_all(STDOUT_FILENO, usage_text());  // a closed standard output is nobody's loss
        return 0;
    }
    if (!words.empty() && words.front() == "--version") {
        (void)write_all(STDOUT_FILENO, "vmadm " TRITON_VERSION "\n");  // the same
        return 0;
    }
    if (word && !find_command(*word)) {
        tell(fail("Invalid command: " + json::quoted(*word) + ".").error(), false);
        (void)write_all(STDERR_FILENO, usage_text());
        return 2;
    }
    bool const asks_version = std::ranges::find(words, "--version") != words.end();
    if (!word && !asks_version) {
        (void)write_all(STDERR_FILENO, usage_text());
        return 2;
    }
    try {
        std::vector<std::string> reversed(words.rbegin(), words.rend());
        app.parse(std::move(reversed));
    } catch (CLI::CallForHelp const&) {
        (void)write_all(STDOUT_FILENO, app.get_subcommand(std::string(find_command(*word)->name))->help());
        return 0;
    } catch (CLI::CallForVersion const&) {
        (void)write_all(STDOUT_FILENO, "vmadm " TRITON_VERSION "\n");
        return 0;
    } catch (CLI::ParseError const& error) {
        return wrong_usage(error.what(), options.has_json_errors);
    }
    if (!chosen->is_for_anybody && ::geteuid() != 0)
        return wrong_usage("vmadm can only be run as root.", options.has_json_errors);
    Outcome const outcome = chosen->run(options);
    if (outcome) return 0;
    if (!outcome.error().is_told) tell(outcome.error().error, options.has_json_errors);
    return outcome.error().exit_code;
}

}  // namespace

}  // namespace triton::program

int main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is seen by the write
    ::umask(022);
    return triton::program::run({argv + 1, argv + argc});
}
