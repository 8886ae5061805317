#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <CLI/CLI.hpp>

#include "lib/base/result.h"
#include "programs/completion/completion.h"

/// The frame of a program that has commands: `PROGRAM [OPTIONS] COMMAND [OPTIONS] [WORDS]`. A program has a table of
/// rows; the frame parses, and prints help, version and errors.
namespace triton::program {

/// Why a command has failed. Its exit code is that of the error's kind: 1 it failed, 2 usage, 3 nobody answers, 4 out
/// of time.
using Outcome = Result<>;

/// What all of these programs accept. A program's own options are derived from it.
struct FrameOptions {
    std::string root = {};
    std::string socket = {};  ///< of its daemon; empty: the one below `root`
    bool has_json_errors = false;
    std::vector<std::string> words = {};  ///< of the command
};

/// A command: its row is its place in the usage text, the manual's synopsis and the completions.
template <class Options>
struct CommandRow {
    std::string_view name;
    std::string_view arguments;
    std::string_view description;
    std::string_view example;  ///< empty: the help of the program has some
    void (*add_options)(CLI::App& app, Options& options);
    Outcome (*run)(Options const& options);
};

/// A row whose options are somewhere.
struct BoundCommand {
    std::string_view name;
    std::string_view arguments;
    std::string_view description;
    std::string_view example;
    std::function<void(CLI::App&)> add_options;
    std::function<Outcome()> run;
};

/// The program as a whole.
struct Frame {
    std::string_view name;
    std::string_view version;
    std::string_view description;    ///< "The volumes of this host"
    std::string_view daemon;         ///< that --socket leads to
    std::string_view socket;         ///< where that is without the option
    std::string_view error_prefix;   ///< "volumeadm: "
    std::size_t column;              ///< where the usage text has the descriptions
    std::string_view about;          ///< the usage text behind the commands
    std::string_view rest;           ///< and behind the options
    Outcome (*prepare)() = nullptr;  ///< before a command runs
};

/// Orders rows by name.
template <class Options>
std::vector<CommandRow<Options>> sorted_rows(std::initializer_list<std::span<CommandRow<Options> const>> areas) {
    std::vector<CommandRow<Options>> rows;
    for (auto const area : areas)
        rows.insert(rows.end(), area.begin(), area.end());
    std::ranges::sort(rows, {}, &CommandRow<Options>::name);
    return rows;
}

template <class Options>
std::vector<BoundCommand> bind_rows(std::type_identity_t<std::span<CommandRow<Options> const>> rows, Options& options) {
    std::vector<BoundCommand> bound;
    for (CommandRow<Options> const& row : rows)
        bound.push_back({row.name, row.arguments, row.description, row.example,
                         [&row, &options](CLI::App& app) { row.add_options(app, options); },
                         [&row, &options] { return row.run(options); }});
    return bound;
}

/// Runs the command that the words name, and returns the exit code.
int run_frame(Frame const& frame, FrameOptions& options, std::span<BoundCommand const> commands,
              std::vector<std::string> const& words);

/// The completion of a shell for this grammar.
Result<std::string> completion_of(Frame const& frame, FrameOptions& scratch, std::span<BoundCommand const> commands,
                                  std::string_view shell, Things const& things, std::span<Offer const> offers);

template <class Options>
void add_words(CLI::App& app, Options& options) {
    app.add_option("words", options.words);
}
/// For commands without options.
template <class Options>
void add_nothing(CLI::App& /*app*/, Options& /*options*/) {}
/// Checks the number of a command's words. Errors: invalid.
Outcome expect_words(FrameOptions const& options, std::string_view command, std::size_t least, std::size_t most);

/// Data for standard output. A missing reader is not an error. Returns whether there is one.
Result<bool> print(std::string_view text);

}  // namespace triton::program
