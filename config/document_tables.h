#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "config/json_reader.h"
#include "config/process_configuration.h"
#include "config/where.h"

namespace triton::config {

/// The tables that say what a ProcessConfiguration is. The parser, the JSON Schema and the reference page are made from
/// them: a new key is one row here (and its parser), nothing else.

struct ArgumentTypeRow {
    ArgumentType type;
    std::string_view name;
    std::string_view description;
};
std::span<ArgumentTypeRow const> argument_types();  // in the order of the enum

/// A set of argument types, one bit each.
using TypeSet = std::uint8_t;
constexpr TypeSet set_of(ArgumentType type) { return static_cast<TypeSet>(1U << static_cast<unsigned>(type)); }

/// What one reading collects.
struct Reading {
    Limits const& limits;
    ProblemList problems{limits.problems};
    ProblemList warnings{limits.problems};
    std::size_t argument_count = 0;
};

/// One key of an object.
template <class Object>
struct Field {
    std::string_view name;
    bool is_required;
    std::string_view json_type;
    std::string_view constraints;  ///< further members of its JSON Schema, each with a comma before it
    std::string_view description;
    /// Called when the key is there and not null (for a required key also then), in the order of the table.
    void (*parse)(Node const& node, Where const& at, Object& object, Reading& reading);
    TypeSet used_by = 0;      ///< Argument only: the types for which it means something
    TypeSet required_by = 0;  ///< Argument only: the types that cannot do without it
};

/// An Argument while its fields are read. The type is the first of them.
struct ArgumentDraft {
    Argument argument;
    bool is_type_known = true;

    [[nodiscard]] bool is(TypeSet types) const { return is_type_known && (types & set_of(argument.type)) != 0; }
};

std::span<Field<ProcessConfiguration> const> process_configuration_fields();
std::span<Field<ArgumentDraft> const> argument_fields();

}  // namespace triton::config
