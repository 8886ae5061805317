#pragma once

#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "host/machine/uuid.h"
#include "lib/base/result.h"

namespace triton::program {

/// Why a command has failed, and with which exit code.
struct Failure {
    Error error;
    int exit_code = 1;
    bool is_told = false;  ///< there is nothing more to say
};
using Outcome = std::expected<void, Failure>;

void tell_error(Error const& error, bool as_json);

/// Something is wrong with the command line.
std::unexpected<Failure> usage(std::string text);

/// The operation cannot be done.
std::unexpected<Failure> failed(ErrorKind kind, std::string text);

inline Failure failure_of(Error error) { return {.error = std::move(error)}; }
inline Failure failure_of(Failure failure) { return failure; }

/// An early return with the failure of an operation, or of a part of a command.
#define TRY_RUN(expr)                                                                                \
    __extension__({                                                                                  \
        auto tried = (expr);                                                                         \
        if (!tried) return std::unexpected(::triton::program::failure_of(std::move(tried).error())); \
        *std::move(tried);                                                                           \
    })

/// The options on the command line, before and after the command's name.
struct Options {
    std::string root = {};
    std::string command = {};  ///< the name of the command
    bool has_json_errors = false;
    bool is_quiet = false;
    bool is_verbose = false;
    bool is_debug = false;

    std::vector<std::string> words = {};  ///< machines, filters, key=value ..
    std::vector<Uuid> only = {};          ///< of those that the words mean; empty: all of them
    std::string file = {};
    std::string order = "uuid,type,ram,state,alias";
    std::string sort = "ram,uuid";
    std::string signal = "SIGTERM";
    bool is_parsable = false;
    bool no_header = false;
    bool with_header = false;
    bool as_json = false;
    bool as_manual = false;
    bool is_unique = false;
    bool force = false;
    bool is_dry_run = false;
    bool is_agreed = false;  ///< nobody is asked
    bool as_table = false;
    bool is_strict = false;
    bool may_alias_repeat = false;
    bool follow = false;
    bool is_full = false;
    bool with_ready = false;
    int lines = 10;
    int seconds = 0;
    bool has_order = false;
    bool has_seconds = false;
    std::string snapshot = {};
    bool with_volumes = false;
    bool with_filesystems = false;
};

/// A command: its row here is its place in the usage text, the manual's synopsis and the completions.
struct Command {
    std::string_view name;
    std::string_view alias;
    std::string_view arguments;
    std::string_view description;
    void (*add_options)(CLI::App& app, Options& options);
    Outcome (*run)(Options const& options);
    bool takes_command = false;   ///< what is behind the VM is another program's
    bool is_for_anybody = false;  ///< it needs no rights
};
std::span<Command const> commands();

/// Builds the command line's model. `chosen` is set to the command when it is parsed.
void build(CLI::App& app, Options& options, Command const*& chosen);

/// One line for each command.
std::string usage_text();

/// Whether a word is a command's name.
Command const* find_command(std::string_view name);

}  // namespace triton::program
