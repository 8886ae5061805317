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
#include "config/problem.h"
#include "config/process_configuration.h"
#include "config/process_number.h"
#include "config/where.h"

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

/// Arguments, and where they stand in the document. Borrowed.
struct ArgumentList {
    std::vector<Argument> const& arguments;
    Where const& at;
};

/// A command line in which everything is substituted but the process number, so that it can be made for any process
/// without allocating, without the environment and without failing.
///
/// It is one text, the arguments with their NULs, and the places in it where a number goes.
class CommandTemplate {
public:
    /// Substitutes and checks for every process from 1 to `highest_number` (0 is checked like 1).
    /// Errors: all of them. "arguments[1].source: environment variable FDB_PUBLIC_IP is not set" or "... is empty",
    /// "arguments[1]: could not find IP with family 4", a ProcessNumber beyond 64 bits, sizes that Linux would refuse.
    static std::expected<CommandTemplate, Problems> create(ProcessConfiguration const& configuration,
                                                           Variables const& variables, std::uint32_t highest_number,
                                                           Limits const& limits = {});
    /// The same for a list anywhere in a document: `at` is the place of the list, programs.web.preStop.command.
    static std::expected<CommandTemplate, Problems> create(std::vector<Argument> const& arguments, Where const& at,
                                                           Variables const& variables, std::uint32_t highest_number,
                                                           Limits const& limits = {});
    /// One argument that is no part of a list: `at` is its own place, programs.web.readiness.address.
    static std::expected<CommandTemplate, Problems> create(Argument const& argument, Where const& at,
                                                           Variables const& variables, std::uint32_t highest_number,
                                                           Limits const& limits = {});
    /// Several lists one after the other: a program's command and its arguments.
    static std::expected<CommandTemplate, Problems> create(std::span<ArgumentList const> lists,
                                                           Variables const& variables, std::uint32_t highest_number,
                                                           Limits const& limits = {});
    /// The entries of an environment, NAME=value. The problems name programs.web.environment.NAME.
    static std::expected<CommandTemplate, Problems> create(
        std::span<std::pair<std::string, Argument> const> environment, Where const& at, Variables const& variables,
        std::uint32_t highest_number, Limits const& limits = {});

    [[nodiscard]] std::size_t argument_count() const { return argument_count_; }
    /// Enough bytes for one rendering, for every number that a process may have.
    [[nodiscard]] std::size_t buffer_size() const { return buffer_size_; }
    [[nodiscard]] std::uint32_t highest_number() const { return highest_number_; }

    /// Writes the arguments of one process into `buffer` (at least buffer_size() bytes) and pointers to them, ended by
    /// a null pointer, into `argv` (at least argument_count() + 1 places; the program's name is the caller's). Does not
    /// allocate. A number above highest_number() is that of a process that is to be stopped, after the count was
    /// lowered; nothing was checked for it: a ProcessNumber that is beyond 64 bits then becomes the nearest integer.
    void render(ProcessNumber number, std::span<char> buffer, std::span<char*> argv) const noexcept;

    /// The same as strings, for showing.
    [[nodiscard]] std::vector<std::string> arguments(ProcessNumber number) const;

    /// Whether they render the same; for how many processes they were checked is no part of it.
    bool operator==(CommandTemplate const& other) const { return text_ == other.text_ && numbers_ == other.numbers_; }

private:
    struct Number {
        std::uint32_t position;  // in text_, before that character
        std::int64_t multiplier;
        std::int64_t offset;

        bool operator==(Number const&) const = default;
    };
    class Builder;

    CommandTemplate() = default;
    template <class Add>
    static std::expected<CommandTemplate, Problems> build(Variables const& variables, std::uint32_t highest_number,
                                                          Limits const& limits, Add add);

    std::string text_;  // every argument with its NUL
    std::vector<Number> numbers_;
    std::size_t argument_count_ = 0;
    std::size_t buffer_size_ = 0;
    std::uint32_t highest_number_ = 0;
};

/// A variable that a configuration names, with what it contributes: its value, for an IPList the chosen address.
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
