#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "config/process_configuration.h"
#include "lib/json/reader.h"
#include "lib/json/where.h"

namespace triton::config {

/// The tables that say what a ProcessConfiguration is. The parser, the JSON Schema and the reference page are made from
/// them: a new key is one row in one of them (and its parser), nothing else.

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
    json::ProblemList problems{limits.document.problems};
    json::ProblemList warnings{limits.document.problems};
    std::size_t argument_count = 0;
    std::size_t socket_count = 0;
    bool has_programs = false;        ///< the document has the key, and not null
    bool has_version = false;         ///< the same
    bool is_inside_programs = false;  ///< there a string is an Argument
};

enum class Need : std::uint8_t { optional, required, without_programs };

/// One key of an object.
template <class Object>
struct Field {
    std::string_view name;
    Need need;
    std::string_view json_type;    ///< "string", "string or array"
    std::string_view constraints;  ///< further members of its JSON Schema, each with a comma before it
    std::string_view description;
    /// Called when the key is there and not null (for a required key also then), in the order of the table.
    void (*parse)(json::Node const& node, json::Where const& at, Object& object, Reading& reading);
    TypeSet used_by = 0;                             ///< Argument only: the types for which it means something
    TypeSet required_by = 0;                         ///< Argument only: the types that cannot do without it
    std::span<std::string_view const> choices = {};  ///< when only these strings are good
};

/// An Argument while its fields are read. The type is the first of them.
struct ArgumentDraft {
    Argument argument;
    bool is_type_known = true;

    [[nodiscard]] bool is(TypeSet types) const { return is_type_known && (types & set_of(argument.type)) != 0; }
};

struct ScheduleDraft {
    std::optional<Milliseconds> every = {};
    std::optional<CronExpression> cron = {};
};

enum class StartLimitAction : std::uint8_t { give_up, exit };

struct StartLimitDraft {
    std::uint32_t count = 1;
    Milliseconds interval{0};
    StartLimitAction action = StartLimitAction::give_up;
    int exit_code = 1;
};

/// `limits`: the order of the rows is that of the result.
struct LimitsDraft {
    std::vector<process::ResourceLimit> limits;
};

/// Soft and hard limit of one resource.
struct LimitPair {
    std::uint64_t soft = 0;
    std::uint64_t hard = 0;
};

/// The table of an object. There is one for each type that is named below.
template <class Object>
std::span<Field<Object> const> fields_of();

template <>
std::span<Field<ProcessConfiguration> const> fields_of();
template <>
std::span<Field<ArgumentDraft> const> fields_of();
template <>
std::span<Field<Program> const> fields_of();
template <>
std::span<Field<ScheduleDraft> const> fields_of();
template <>
std::span<Field<Backoff> const> fields_of();
template <>
std::span<Field<StartLimitDraft> const> fields_of();
template <>
std::span<Field<Hook> const> fields_of();
template <>
std::span<Field<Readiness> const> fields_of();
template <>
std::span<Field<Health> const> fields_of();
template <>
std::span<Field<LimitsDraft> const> fields_of();
template <>
std::span<Field<LimitPair> const> fields_of();
template <>
std::span<Field<process::CgroupLimits> const> fields_of();
template <>
std::span<Field<process::CapabilitySettings> const> fields_of();
template <>
std::span<Field<process::SeccompSettings> const> fields_of();
template <>
std::span<Field<process::LandlockSettings> const> fields_of();
template <>
std::span<Field<Output> const> fields_of();
template <>
std::span<Field<ListenSocket> const> fields_of();

}  // namespace triton::config
