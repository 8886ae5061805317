#pragma once

#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "host/info/client/client.h"
#include "host/machine/listing.h"
#include "lib/base/result.h"

namespace triton::program {

/// Why a command has failed. Its exit code is that of the error's kind: 1 it failed, 2 usage, 3 nobody answers, 4 out
/// of time.
using Outcome = Result<>;

/// The options on the command line, before and after the command's name.
struct Options {
    std::string root = {};
    std::string socket = {};  ///< empty: the one below `root`
    bool has_json_errors = false;

    std::vector<std::string> words = {};
    std::string fields = {};
    bool is_full = false;
    bool as_json = false;
    bool with_ready = false;
    bool is_fresh = false;
    std::string since = {};
    std::vector<std::string> filters = {};
    std::vector<std::string> types = {};
    std::vector<std::string> changed = {};  ///< names of properties
    std::vector<std::string> until = {};
    double timeout = 0;  ///< seconds; 0: none
    std::string sort = "cpu";
    double delay = 2;  ///< seconds
    int count = 0;     ///< 0: for ever
};

/// A command: its row here is its place in the usage text, the manual's synopsis and the completions.
struct Command {
    std::string_view name;
    std::string_view arguments;
    std::string_view description;
    void (*add_options)(CLI::App& app, Options& options);
    Outcome (*run)(Options const& options);
};

/// The commands of each area; commands() has them all.
std::span<Command const> look_commands();
std::span<Command const> event_commands();
std::span<Command const> top_commands();
std::span<Command const> commands();
Command const* find_command(std::string_view name);

/// Builds the command line's model. `chosen` is set to the command when it is parsed.
void build(CLI::App& app, Options& options, Command const*& chosen);
std::string usage_text();
void add_words(CLI::App& app, Options& options);

/// vminfod, for this command.
info::Client client_of(Options const& options);
/// The conditions that words say. `what`: "filter", for the message.
Result<std::vector<machine::Filter>> filters_of(std::span<std::string const> words, std::string_view what);
/// Checks the number of a command's words. Errors: invalid.
Outcome expect_words(Options const& options, std::string_view command, std::size_t least, std::size_t most);

/// Data for standard output. A missing reader is not an error. Returns whether there is one.
Result<bool> print(std::string_view text);

}  // namespace triton::program
