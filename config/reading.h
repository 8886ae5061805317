#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "config/document_tables.h"
#include "lib/json/values.h"

namespace triton::config {

/// Kinds of values that only a ProcessConfiguration has. Each read_..() returns nullopt exactly when it has added a
/// problem.

using json::as;

inline constexpr json::Shape signal_shape{.types = "string", .pattern = "^[A-Za-z0-9]+([+-][0-9]+)?$"};
std::optional<int> read_signal(json::Node const& node, json::Where const& at, json::Reading& reading);
using Signal = json::Kind<read_signal, signal_shape>;

inline constexpr std::int64_t highest_id = UINT32_MAX - 1;  // the last one means "leave it" to chown(2), setresuid(2)
inline constexpr json::Shape id_or_name{
    .types = "string or integer", .lowest = 0, .highest = highest_id, .shortest = 1};
std::optional<process::IdOrName> read_id_or_name(json::Node const& node, json::Where const& at, json::Reading& reading);
using NameOrId = json::Kind<read_id_or_name, id_or_name>;

// The definitions say of what types these are. Inside `programs` a string is also an Argument.
inline constexpr json::Shape an_argument{.definition = "Argument"};
inline constexpr json::Shape a_program_argument{.definition = "ProgramArgument", .section = "Argument"};
inline constexpr std::string_view argument_or_null = R"("anyOf":[{"type":"null"},{"$ref":"#/$defs/ProgramArgument"}])";
inline constexpr json::Shape argument_list_shape{.types = "array", .elements = &an_argument};
inline constexpr json::Shape program_arguments{.types = "array", .elements = &a_program_argument};
inline constexpr json::Shape program_command{.types = "array", .fewest = 1, .elements = &a_program_argument};

/// An Argument that is a value by itself.
std::optional<Argument> read_argument(json::Node const& node, json::Where const& at, Reading& reading);
std::optional<std::vector<Argument>> read_arguments(json::Node const& node, json::Where const& at, Reading& reading);
/// The same, but at least one.
std::optional<std::vector<Argument>> read_command(json::Node const& node, json::Where const& at, Reading& reading);
Argument parse_argument(json::Node const& node, json::Where const& at, Reading& reading);
using Arguments = json::Kind<read_arguments, program_arguments>;
using Command = json::Kind<read_command, program_command>;

}  // namespace triton::config
