#include "config/argument.h"

#include <array>

#include "config/reading.h"

namespace triton::config {

namespace {

std::string type_name(ArgumentType type) {
    return std::string(argument_types()[static_cast<std::size_t>(type)].name);  // one row per type, in order
}

void check_fields_of_type(Present<ArgumentDraft> present, ArgumentDraft const& draft, json::Where const& at,
                          Reading& reading) {
    if (!draft.is_type_known) return;
    auto const fields = fields_of<ArgumentDraft>();
    for (std::size_t i = 0; i < fields.size(); ++i) {
        json::Where const field_at{&at, fields[i].name};
        if (present.has(i) && !draft.is(fields[i].used_by)) {
            reading.warnings.add(field_at, "has no effect for type " + type_name(draft.argument.type));
        } else if (!present.has(i) && draft.is(fields[i].required_by)) {
            reading.problems.add(field_at, "required for type " + type_name(draft.argument.type));
        }
    }
}

void parse_type(json::Node const& node, json::Where const& at, ArgumentDraft& draft, Reading& reading) {
    draft.is_type_known = false;
    std::string const* const name = expect_string(node, at, reading);
    if (!name) return;
    auto const types = argument_types();
    auto const row = name->empty() ? types.begin() : std::ranges::find(types, *name, &ArgumentTypeRow::name);
    if (row == types.end()) {
        reading.problems.add(at, "unknown type " + json::quoted(*name) + suggestion_from(*name, types));
        return;
    }
    draft.argument.type = row->type;
    draft.is_type_known = true;
}

void parse_value(json::Node const& node, json::Where const& at, ArgumentDraft& draft, Reading& reading) {
    if (std::string const* const value = expect_string(node, at, reading)) draft.argument.value = *value;
}

void parse_values(json::Node const& node, json::Where const& at, ArgumentDraft& draft, Reading& reading) {
    if (auto values = read_arguments(node, at, reading)) draft.argument.values = std::move(*values);
}

constexpr TypeSet reads_a_variable = set_of(ArgumentType::environment) | set_of(ArgumentType::ip_list);

void parse_source(json::Node const& node, json::Where const& at, ArgumentDraft& draft, Reading& reading) {
    std::string const* const source = expect_string(node, at, reading);
    if (!source) return;
    if (source->empty() && draft.is(reads_a_variable)) reading.problems.add(at, "must not be empty");
    draft.argument.source = *source;
}

void parse_multiplier(json::Node const& node, json::Where const& at, ArgumentDraft& draft, Reading& reading) {
    std::int64_t const* const multiplier = expect_integer(node, at, reading);
    if (multiplier && *multiplier != 0) draft.argument.multiplier = *multiplier;
}

void parse_offset(json::Node const& node, json::Where const& at, ArgumentDraft& draft, Reading& reading) {
    if (std::int64_t const* const offset = expect_integer(node, at, reading)) draft.argument.offset = *offset;
}

void parse_ip_family(json::Node const& node, json::Where const& at, ArgumentDraft& draft, Reading& reading) {
    std::int64_t const* const family = expect_integer(node, at, reading);
    if (!family) return;
    if (*family == 4 || *family == 6) {
        draft.argument.ip_family = *family == 4 ? IpFamily::v4 : IpFamily::v6;
    } else if (draft.is(set_of(ArgumentType::ip_list))) {
        reading.problems.add(at, "unsupported IP family " + std::to_string(*family));
    }
}

constexpr std::string_view any_integer = R"(,"minimum":-9223372036854775808,"maximum":9223372036854775807)";

}  // namespace

bool Argument::operator==(Argument const&) const = default;

Argument parse_argument(json::Node const& node, json::Where const& at, Reading& reading) {
    if (auto const* const text = node.get<std::string>(); text && reading.is_inside_programs) return {.value = *text};
    ArgumentDraft draft;
    std::string_view const wanted = reading.is_inside_programs ? "a string or an object" : "an object";
    if (auto const* const json = expect<json::Object>(wanted, node, at, reading)) {
        Present<ArgumentDraft> const present = parse_fields(*json, at, draft, reading);
        check_fields_of_type(present, draft, at, reading);
    }
    return std::move(draft.argument);
}

std::optional<Argument> read_argument(json::Node const& node, json::Where const& at, Reading& reading) {
    std::size_t const limit = reading.limits.arguments;
    if (++reading.argument_count > limit) {
        reading.problems.add(at, "more than " + std::to_string(limit) + " arguments in all");
        return std::nullopt;
    }
    std::size_t const problems_before = reading.problems.count();
    Argument argument = parse_argument(node, at, reading);
    return reading.problems.count() == problems_before ? std::optional(std::move(argument)) : std::nullopt;
}

std::optional<std::vector<Argument>> read_arguments(json::Node const& node, json::Where const& at, Reading& reading) {
    auto const* const array = expect<json::Array>("an array", node, at, reading);
    if (!array) return std::nullopt;
    std::vector<Argument> list;
    std::size_t const limit = reading.limits.arguments;
    for (std::size_t i = 0; i < array->size() && reading.argument_count <= limit; ++i) {
        json::Where const element_at{&at, i};
        if (++reading.argument_count > limit) {
            reading.problems.add(element_at, "more than " + std::to_string(limit) + " arguments in all");
            break;
        }
        list.push_back(parse_argument((*array)[i], element_at, reading));
    }
    return list;
}

std::optional<std::vector<Argument>> read_command(json::Node const& node, json::Where const& at, Reading& reading) {
    auto command = read_arguments(node, at, reading);
    if (!command || !command->empty()) return command;
    reading.problems.add(at, "must not be empty");
    return std::nullopt;
}

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

template <>
std::span<Field<ArgumentDraft> const> fields_of() {
    using enum ArgumentType;
    using enum Need;
    static constexpr TypeSet all = 0xff;
    static constexpr std::array<Field<ArgumentDraft>, 7> rows{{
        {"type", optional, "string", "", "How the argument is made. Absent or empty means `Literal`.", parse_type, all},
        {"value", optional, "string", without_nul, "The text. The default is empty, which still is an argument.",
         parse_value, set_of(literal)},
        {"values", optional, "array", argument_list, "The parts, Arguments themselves. None make an empty argument.",
         parse_values, set_of(concatenate)},
        {"source", optional, "string", without_nul, "The name of an environment variable.", parse_source,
         reads_a_variable, reads_a_variable},
        {"multiplier", optional, "integer", any_integer, "The factor. The default is 1, and 0 means 1.",
         parse_multiplier, set_of(process_number)},
        {"offset", optional, "integer", any_integer, "What is added. The default is 0.", parse_offset,
         set_of(process_number)},
        {"ipFamily", optional, "integer", "", "4 or 6.", parse_ip_family, set_of(ip_list), set_of(ip_list)},
    }};
    return rows;
}

}  // namespace triton::config
