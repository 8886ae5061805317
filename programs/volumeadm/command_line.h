#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

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
    bool as_json = false;
    bool without_header = false;
    bool is_of_content = false;
    std::string kind = {};
    std::string uuid = {};
    std::uint64_t generation = 0;
    std::string size = {};
    std::string layout = {};
    std::string content = {};
    std::string source = {};
    bool is_read_only = false;
    bool is_encrypted = false;
    bool is_verify_only = false;
    bool is_dry_run = false;
    bool does_not_wait = false;
    std::string sha256 = {};
    std::string format = {};
    std::string user_data = {};
    std::string network = {};
    std::string credentials = {};
    bool is_insecure = false;
    std::string signature = {};
    std::string keys = {};
    std::string certificates = {};
    std::string snapshot = {};
    std::string file = {};
    bool is_new = false;
    std::string until = {};
    double timeout = 0;  ///< seconds; 0: none
};

/// A command: its row here is its place in the usage text, the manual's synopsis and the completions.
struct Command {
    std::string_view name;
    std::string_view arguments;
    std::string_view description;
    std::string_view example;
    void (*add_options)(CLI::App& app, Options& options);
    Outcome (*run)(Options const& options);
};

/// The commands of each area; commands() has them all.
std::span<Command const> look_commands();
std::span<Command const> change_commands();
std::span<Command const> transfer_commands();
std::span<Command const> commands();
Command const* find_command(std::string_view name);

/// Builds the command line's model. `chosen` is set to the command when it is parsed.
void build(CLI::App& app, Options& options, Command const*& chosen);
std::string usage_text();
void add_words(CLI::App& app, Options& options);

/// Checks the number of a command's words. Errors: invalid.
Outcome expect_words(Options const& options, std::string_view command, std::size_t least, std::size_t most);

/// Data for standard output. A missing reader is not an error. Returns whether there is one.
Result<bool> print(std::string_view text);

}  // namespace triton::program
