#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/environment_file.h"
#include "config/limits.h"
#include "config/process_configuration.h"
#include "lib/json/problem.h"
#include "lib/json/where.h"
#include "lib/process/command_template.h"

namespace triton::config {

/// Of the variables that hold the labels of a pod's node, which come while we run.
inline constexpr std::string_view node_label_prefix = "NODE_LABEL_";

/// Where `source` looks: the values of an environment file first, then an environment as execve(2) takes it.
class Variables {
public:
    /// `file_values`: as parse_environment_file() returns them, sorted by name. `environment` is borrowed; may be null.
    Variables(std::vector<EnvironmentVariable> file_values, char const* const* environment)
        : file_values_(std::move(file_values)), environment_(environment) {}

    [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;

private:
    std::vector<EnvironmentVariable> file_values_;
    char const* const* environment_;
};

/// Arguments, and their place in the document. Borrowed.
struct ArgumentList {
    std::vector<Argument> const& arguments;
    json::Where const& at;
};

/// Substitutes a command line for every process from 1 to `highest_number` (0 is checked like 1), so that only the
/// process number is left to be put in.
/// Errors: all of them. "arguments[1].source: environment variable FDB_PUBLIC_IP is not set" or "... is empty",
/// "arguments[1]: could not find IP with family 4", a ProcessNumber beyond 64 bits, sizes that Linux would refuse.
std::expected<process::CommandTemplate, json::Problems> substitute(ProcessConfiguration const& configuration,
                                                                   Variables const& variables,
                                                                   std::uint32_t highest_number,
                                                                   Limits const& limits = {});
/// The same for a list anywhere in a document: `at` is the place of the list, programs.web.preStop.command.
std::expected<process::CommandTemplate, json::Problems> substitute(std::vector<Argument> const& arguments,
                                                                   json::Where const& at, Variables const& variables,
                                                                   std::uint32_t highest_number,
                                                                   Limits const& limits = {});
/// One argument that does not belong to a list: `at` is its own place, programs.web.readiness.address.
std::expected<process::CommandTemplate, json::Problems> substitute(Argument const& argument, json::Where const& at,
                                                                   Variables const& variables,
                                                                   std::uint32_t highest_number,
                                                                   Limits const& limits = {});
/// Several lists one after the other: a program's command and its arguments.
std::expected<process::CommandTemplate, json::Problems> substitute(std::span<ArgumentList const> lists,
                                                                   Variables const& variables,
                                                                   std::uint32_t highest_number,
                                                                   Limits const& limits = {});
/// The entries of an environment, NAME=value. The problems name programs.web.environment.NAME.
std::expected<process::CommandTemplate, json::Problems> substitute(
    std::span<std::pair<std::string, Argument> const> environment, json::Where const& at, Variables const& variables,
    std::uint32_t highest_number, Limits const& limits = {});

/// The same argument without variables: what they contribute stands in it. They are there: substitute() has succeeded.
Argument with_variables_put_in(Argument const& argument, Variables const& variables);
/// The paths that such an argument stands for, by the number.
process::CommandTemplate numbered_path(Argument const& argument);

/// A variable that a configuration names, with its contribution: its value, or the chosen address of an IPList.
struct Reference {
    std::string name;
    std::optional<std::string> value;  ///< nullopt: not set, empty, or without such an address

    bool operator==(Reference const&) const = default;
    auto operator<=>(Reference const&) const = default;
};

/// All of them, those of programs and their hooks included, sorted, each pair once (one variable may be both
/// Environment and IPList).
std::vector<Reference> referenced_variables(ProcessConfiguration const& configuration, Variables const& variables);

}  // namespace triton::config
