#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "config/process_configuration.h"
#include "lib/json/table.h"

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

/// The results of one reading, and its knowledge of the whole document.
struct Reading : json::Reading {
    explicit Reading(Limits const& document_limits)
        : json::Reading(document_limits.document.problems), limits(document_limits) {}

    Limits const& limits;
    std::size_t argument_count = 0;
    std::size_t socket_count = 0;
    bool has_programs = false;        ///< the document has the key, and not null
    bool has_version = false;         ///< the same
    bool may_mean_programs = false;   ///< the document has a key that is nearly `programs`
    bool is_inside_programs = false;  ///< there a string is an Argument
    bool may_repeat_keys = false;     ///< the JSON reader has told of something, which may be that
};

template <class Object>
using Field = json::Field<Object, Reading>;
template <class Object>
using TableOf = json::TableOf<Object, Reading>;
template <class Object>
using Present = json::Present<Object, Reading>;

/// An Argument while its fields are read. The type is the first of them.
struct ArgumentDraft {
    Argument argument;
    bool is_type_known = true;

    [[nodiscard]] bool is(TypeSet types) const { return is_type_known && (types & set_of(argument.type)) != 0; }
};

struct ScheduleDraft {
    std::optional<Milliseconds> every = {};
    std::optional<CronExpression> cron = {};
    std::string time_zone = {};
    bool has_first_run = false;
    Missed missed = Missed::skip;
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

/// A row of the table of Arguments.
struct ArgumentField {
    std::string_view name = {};
    json::Need need = json::Need::optional;
    json::NeededWhen<Reading> needed_when = {};
    json::Value<ArgumentDraft, Reading> value = {};
    std::string_view description = {};
    TypeSet used_by = 0;      ///< the types for which the key means something
    TypeSet required_by = 0;  ///< the types that cannot do without it
};

// The tables.
std::span<Field<ProcessConfiguration> const> table(TableOf<ProcessConfiguration>);
std::span<ArgumentField const> table(TableOf<ArgumentDraft>);
std::span<Field<Program> const> table(TableOf<Program>);
std::span<Field<ScheduleDraft> const> table(TableOf<ScheduleDraft>);
std::span<Field<Backoff> const> table(TableOf<Backoff>);
std::span<Field<StartLimitDraft> const> table(TableOf<StartLimitDraft>);
std::span<Field<Hook> const> table(TableOf<Hook>);
std::span<Field<Readiness> const> table(TableOf<Readiness>);
std::span<Field<Health> const> table(TableOf<Health>);
std::span<Field<WatchedFiles> const> table(TableOf<WatchedFiles>);
std::span<Field<StopStep> const> table(TableOf<StopStep>);
std::span<Field<EnvironmentSource> const> table(TableOf<EnvironmentSource>);
std::span<Field<Stdin> const> table(TableOf<Stdin>);
std::span<Field<Tty> const> table(TableOf<Tty>);
std::span<Field<LimitsDraft> const> table(TableOf<LimitsDraft>);
std::span<Field<LimitPair> const> table(TableOf<LimitPair>);
std::span<Field<process::CgroupLimits> const> table(TableOf<process::CgroupLimits>);
std::span<Field<process::CapabilitySettings> const> table(TableOf<process::CapabilitySettings>);
std::span<Field<process::SeccompSettings> const> table(TableOf<process::SeccompSettings>);
std::span<Field<process::LandlockSettings> const> table(TableOf<process::LandlockSettings>);
std::span<Field<Output> const> table(TableOf<Output>);
std::span<Field<Syslog> const> table(TableOf<Syslog>);
std::span<Field<ListenSocket> const> table(TableOf<ListenSocket>);

/// Keys that other supervisors have: "; did you mean \"environment\"?" for "env". See json::advice().
std::string advice(TableOf<Program>, std::string_view key);
std::string advice(TableOf<process::CapabilitySettings>, std::string_view key);

}  // namespace triton::config
