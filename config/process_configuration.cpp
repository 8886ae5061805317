#include "config/process_configuration.h"

#include <algorithm>
#include <array>
#include <new>

#include "config/document_tables.h"
#include "config/json_text.h"
#include "config/nearest.h"

namespace triton::config {

namespace {

constexpr std::int64_t highest_count = 65535;
constexpr std::size_t longest_version = 255;  // NAME_MAX: it becomes one component of a path

/// The value when it is of that kind; else nullptr and a problem.
template <class T>
T const* expect(std::string_view wanted, Node const& node, Where const& at, Reading& reading) {
    T const* const value = node.get<T>();
    if (!value) {
        reading.problems.add(at, std::string("expected ").append(wanted).append(", found ").append(node.kind()));
    }
    return value;
}

std::string const* expect_string(Node const& node, Where const& at, Reading& reading) {
    return expect<std::string>("a string", node, at, reading);
}

std::int64_t const* expect_integer(Node const& node, Where const& at, Reading& reading) {
    auto const* const odd = node.get<JsonOddNumber>();
    if (!odd) return expect<std::int64_t>("an integer", node, at, reading);
    std::string const shown = odd->text.size() > 40 ? odd->text.substr(0, 40) + "..." : odd->text;
    bool const is_integer = odd->text.find_first_not_of("-0123456789") == std::string::npos;
    reading.problems.add(
        at, is_integer ? shown + " is beyond a 64-bit signed integer" : "expected an integer, found " + shown);
    return nullptr;
}

/// "; did you mean \"<name>\"?" when a row of the table has a similar name.
template <class Row>
std::string suggestion(std::string_view name, std::span<Row const> table) {
    std::vector<std::string_view> known;
    for (Row const& row : table)
        known.push_back(row.name);
    auto const meant = nearest(name, known);
    return meant ? "; did you mean " + quoted(*meant) + "?" : "";
}

template <class Object>
void warn_of_unknown_keys(JsonObject const& json, Where const& at, std::span<Field<Object> const> fields,
                          Reading& reading) {
    for (Member const& member : json) {
        if (std::ranges::find(fields, member.key, &Field<Object>::name) != fields.end()) continue;
        // the limit first: looking for a similar name is the slow part
        std::string const meant = reading.warnings.has_room() ? suggestion(member.key, fields) : "";
        reading.warnings.add(at, "unknown key " + quoted(member.key) + meant);
    }
}

/// Which rows of its table an object has, by bit.
using FieldSet = std::uint32_t;

/// Reads an object by the table of its fields.
template <class Object>
FieldSet parse_fields(JsonObject const& json, Where const& at, std::span<Field<Object> const> fields, Object& object,
                      Reading& reading) {
    FieldSet present = 0;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        Where const field_at{&at, fields[i].name};
        auto const member = std::ranges::find(json, fields[i].name, &Member::key);
        if (member == json.end()) {
            if (fields[i].is_required) reading.problems.add(field_at, "required key is missing");
            continue;
        }
        if (member->node.template get<JsonNull>() && !fields[i].is_required) continue;
        present |= FieldSet{1} << i;
        fields[i].parse(member->node, field_at, object, reading);
    }
    warn_of_unknown_keys(json, at, fields, reading);
    return present;
}

std::string type_name(ArgumentType type) {
    return std::string(argument_types()[static_cast<std::size_t>(type)].name);  // one row per type, in order
}

void check_fields_of_type(FieldSet present, ArgumentDraft const& draft, Where const& at, Reading& reading) {
    if (!draft.is_type_known) return;
    auto const fields = argument_fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
        bool const is_present = (present & (FieldSet{1} << i)) != 0;
        Where const field_at{&at, fields[i].name};
        if (is_present && !draft.is(fields[i].used_by)) {
            reading.warnings.add(field_at, "has no effect for type " + type_name(draft.argument.type));
        } else if (!is_present && draft.is(fields[i].required_by)) {
            reading.problems.add(field_at, "required for type " + type_name(draft.argument.type));
        }
    }
}

Argument parse_argument(Node const& node, Where const& at, Reading& reading) {
    ArgumentDraft draft;
    if (auto const* const json = expect<JsonObject>("an object", node, at, reading)) {
        FieldSet const present = parse_fields(*json, at, argument_fields(), draft, reading);
        check_fields_of_type(present, draft, at, reading);
    }
    return std::move(draft.argument);
}

void parse_argument_list(Node const& node, Where const& at, std::vector<Argument>& list, Reading& reading) {
    auto const* const array = expect<JsonArray>("an array", node, at, reading);
    if (!array) return;
    std::size_t const limit = reading.limits.arguments;
    for (std::size_t i = 0; i < array->size() && reading.argument_count <= limit; ++i) {
        Where const element_at{&at, i};
        if (++reading.argument_count > limit) {
            reading.problems.add(element_at, "more than " + std::to_string(limit) + " arguments in all");
            return;
        }
        list.push_back(parse_argument((*array)[i], element_at, reading));
    }
}

/// Why a text is no version; empty when it is one.
std::string version_fault(std::string_view version) {
    if (version.empty()) return "must not be empty";
    if (version.contains('/')) return "must not contain a slash: it becomes part of a path";
    if (version == "." || version == "..") return "must not be " + quoted(version) + ": it becomes part of a path";
    if (version.size() > longest_version) return "is longer than " + std::to_string(longest_version) + " bytes";
    return {};
}

void parse_version(Node const& node, Where const& at, ProcessConfiguration& configuration, Reading& reading) {
    std::string const* const version = expect_string(node, at, reading);
    if (!version) return;
    if (std::string fault = version_fault(*version); !fault.empty()) reading.problems.add(at, std::move(fault));
    configuration.version = *version;
}

void parse_run_servers(Node const& node, Where const& at, ProcessConfiguration& configuration, Reading& reading) {
    if (bool const* const value = expect<bool>("a boolean", node, at, reading)) configuration.run_servers = *value;
}

void parse_count(Node const& node, Where const& at, ProcessConfiguration& configuration, Reading& reading) {
    std::int64_t const* const count = expect_integer(node, at, reading);
    if (!count) return;
    if (*count < 0 || *count > highest_count) {
        reading.problems.add(at, std::to_string(*count) + " is not within 0 to " + std::to_string(highest_count));
        return;
    }
    configuration.count = static_cast<std::uint32_t>(*count);
}

void parse_arguments(Node const& node, Where const& at, ProcessConfiguration& configuration, Reading& reading) {
    parse_argument_list(node, at, configuration.arguments, reading);
}

void parse_type(Node const& node, Where const& at, ArgumentDraft& draft, Reading& reading) {
    draft.is_type_known = false;
    std::string const* const name = expect_string(node, at, reading);
    if (!name) return;
    auto const types = argument_types();
    auto const row = name->empty() ? types.begin() : std::ranges::find(types, *name, &ArgumentTypeRow::name);
    if (row == types.end()) {
        reading.problems.add(at, "unknown type " + quoted(*name) + suggestion(*name, types));
        return;
    }
    draft.argument.type = row->type;
    draft.is_type_known = true;
}

void parse_value(Node const& node, Where const& at, ArgumentDraft& draft, Reading& reading) {
    if (std::string const* const value = expect_string(node, at, reading)) draft.argument.value = *value;
}

void parse_values(Node const& node, Where const& at, ArgumentDraft& draft, Reading& reading) {
    parse_argument_list(node, at, draft.argument.values, reading);
}

constexpr TypeSet reads_a_variable = set_of(ArgumentType::environment) | set_of(ArgumentType::ip_list);

void parse_source(Node const& node, Where const& at, ArgumentDraft& draft, Reading& reading) {
    std::string const* const source = expect_string(node, at, reading);
    if (!source) return;
    if (source->empty() && draft.is(reads_a_variable)) reading.problems.add(at, "must not be empty");
    draft.argument.source = *source;
}

void parse_multiplier(Node const& node, Where const& at, ArgumentDraft& draft, Reading& reading) {
    std::int64_t const* const multiplier = expect_integer(node, at, reading);
    if (multiplier && *multiplier != 0) draft.argument.multiplier = *multiplier;
}

void parse_offset(Node const& node, Where const& at, ArgumentDraft& draft, Reading& reading) {
    if (std::int64_t const* const offset = expect_integer(node, at, reading)) draft.argument.offset = *offset;
}

void parse_ip_family(Node const& node, Where const& at, ArgumentDraft& draft, Reading& reading) {
    std::int64_t const* const family = expect_integer(node, at, reading);
    if (!family) return;
    if (*family == 4 || *family == 6) {
        draft.argument.ip_family = *family == 4 ? IpFamily::v4 : IpFamily::v6;
    } else if (draft.is(set_of(ArgumentType::ip_list))) {
        reading.problems.add(at, "unsupported IP family " + std::to_string(*family));
    }
}

constexpr std::string_view without_nul = R"(,"pattern":"^[^\\u0000]*$")";
constexpr std::string_view any_integer = R"(,"minimum":-9223372036854775808,"maximum":9223372036854775807)";
constexpr std::string_view argument_list = R"(,"items":{"$ref":"#/$defs/Argument"})";

}  // namespace

std::span<ArgumentTypeRow const> argument_types() {
    static constexpr std::array<ArgumentTypeRow, 5> rows{{
        {ArgumentType::literal, "Literal", "The text in `value`."},
        {ArgumentType::concatenate, "Concatenate", "The parts in `values`, joined without anything between them."},
        {ArgumentType::environment, "Environment",
         "The value of the variable named by `source`. It must be set and not empty."},
        {ArgumentType::process_number, "ProcessNumber",
         "The number of the process, counted from 1, times `multiplier` plus `offset`."},
        {ArgumentType::ip_list, "IPList",
         "The first address of the family `ipFamily` in the comma-separated list held by the variable `source`."},
    }};
    static_assert(rows.back().type == ArgumentType::ip_list &&
                  rows.size() == 1 + static_cast<std::size_t>(rows.back().type));
    return rows;
}

std::span<Field<ProcessConfiguration> const> process_configuration_fields() {
    static constexpr std::array<Field<ProcessConfiguration>, 4> rows{{
        {"version", true, "string", R"(,"minLength":1,"maxLength":255,"pattern":"^(?!\\.{1,2}$)[^/\\u0000]+$")",
         "The version of the program to run. It decides which binary is used.", parse_version},
        {"runServers", false, "boolean", "", "False: run no process, and stop those that run. The default is true.",
         parse_run_servers},
        {"count", false, "integer", R"(,"minimum":0,"maximum":65535)",
         "How many processes to run. It overrides the number given on the command line.", parse_count},
        {"arguments", false, "array", argument_list, "The arguments of the program, without its own name.",
         parse_arguments},
    }};
    return rows;
}

std::span<Field<ArgumentDraft> const> argument_fields() {
    using enum ArgumentType;
    static constexpr TypeSet all = 0xff;
    static constexpr std::array<Field<ArgumentDraft>, 7> rows{{
        {"type", false, "string", "", "How the argument is made. Absent or empty means `Literal`.", parse_type, all},
        {"value", false, "string", without_nul, "The text. The default is empty, which still is an argument.",
         parse_value, set_of(literal)},
        {"values", false, "array", argument_list, "The parts, Arguments themselves. None make an empty argument.",
         parse_values, set_of(concatenate)},
        {"source", false, "string", without_nul, "The name of an environment variable.", parse_source, reads_a_variable,
         reads_a_variable},
        {"multiplier", false, "integer", any_integer, "The factor. The default is 1, and 0 means 1.", parse_multiplier,
         set_of(process_number)},
        {"offset", false, "integer", any_integer, "What is added. The default is 0.", parse_offset,
         set_of(process_number)},
        {"ipFamily", false, "integer", "", "4 or 6.", parse_ip_family, set_of(ip_list), set_of(ip_list)},
    }};
    return rows;
}

bool Argument::operator==(Argument const&) const = default;

Draft read(std::string_view text, Limits const& limits) try {
    Reading reading{limits};
    Where const document;
    Draft draft;
    if (auto const root = read_json(text, limits, reading.problems)) {
        if (auto const* const json = expect<JsonObject>("an object", *root, document, reading)) {
            parse_fields(*json, document, process_configuration_fields(), draft.configuration, reading);
            draft.is_object = true;
        }
    }
    draft.problems = std::move(reading.problems).take();
    draft.warnings = std::move(reading.warnings).take();
    return draft;
} catch (std::bad_alloc const&) {
    Draft draft;
    draft.problems = {{"", "out of memory"}};
    return draft;
}

std::expected<Parsed, Problems> parse(std::string_view text, Limits const& limits) {
    Draft draft = read(text, limits);
    if (!draft.problems.empty()) return std::unexpected(std::move(draft.problems));
    return Parsed{std::move(draft.configuration), std::move(draft.warnings)};
}

}  // namespace triton::config
