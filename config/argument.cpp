#include "config/argument.h"

#include <array>

#include "config/reading.h"

namespace triton::config {

namespace {

constexpr std::array<ArgumentTypeRow, 5> type_rows{{
    {ArgumentType::literal, "Literal", "The text in `value`."},
    {ArgumentType::concatenate, "Concatenate", "The parts in `values`, joined with nothing between them."},
    {ArgumentType::environment, "Environment",
     "The value of the variable named by `source`. It must be set and not empty."},
    {ArgumentType::process_number, "ProcessNumber",
     "The number of the process, counted from 1, times `multiplier` plus `offset`, with zeros before it up to "
     "`width`."},
    {ArgumentType::ip_list, "IPList",
     "The first address of the family `ipFamily` in the comma-separated list held by the variable `source`."},
}};
static_assert(type_rows.back().type == ArgumentType::ip_list &&
              type_rows.size() == 1 + static_cast<std::size_t>(type_rows.back().type));

std::string type_name(ArgumentType type) {
    return std::string(argument_types()[static_cast<std::size_t>(type)].name);  // one row per type, in order
}

void check_fields_of_type(Present<ArgumentDraft> present, ArgumentDraft const& draft, json::Where const& at,
                          Reading& reading) {
    if (!draft.is_type_known) return;
    auto const fields = table(TableOf<ArgumentDraft>{});
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
        std::string hint = json::suggestion_from(*name, types);
        if (hint.empty()) {
            for (ArgumentTypeRow const& known : types)
                hint.append(hint.empty() ? " (known: " : ", ").append(known.name);
            hint += ')';
        }
        reading.problems.add(at, "unknown type " + json::quoted(*name) + hint);
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

constexpr std::uint32_t widest = 20;  // of a 64-bit integer
using Width = json::Integer<std::uint32_t, 1, widest>;

void parse_width(json::Node const& node, json::Where const& at, ArgumentDraft& draft, Reading& reading) {
    if (auto const width = Width::read(node, at, reading)) draft.argument.width = *width;
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

/// A type that is absent or empty means Literal, too.
constexpr auto type_names = [] {
    std::array<std::string_view, 1 + type_rows.size()> names{""};
    for (std::size_t i = 0; i < type_rows.size(); ++i)
        names[i + 1] = type_rows[i].name;
    return names;
}();
constexpr json::Shape type_shape{.types = "string", .choices = type_names};
constexpr json::Shape ip_family_shape{.types = "integer"};

}  // namespace

bool Argument::operator==(Argument const&) const = default;

Argument parse_argument(json::Node const& node, json::Where const& at, Reading& reading) {
    if (auto const* const text = node.get<std::string>(); text && reading.is_inside_programs) return {.value = *text};
    ArgumentDraft draft;
    constexpr std::string_view either =
        R"(a string or an object, for example {"type": "Environment", "source": "NAME"})";
    std::string_view const wanted = reading.is_inside_programs ? either : either.substr(sizeof "a string or " - 1);
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
    auto const* const array = json::expect_array(node, at, reading);
    if (!array) return std::nullopt;
    std::vector<Argument> list;
    std::size_t const limit = reading.limits.arguments;
    list.reserve(std::min(array->size(), limit));
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

std::span<ArgumentTypeRow const> argument_types() { return type_rows; }

std::span<ArgumentField const> table(TableOf<ArgumentDraft>) {
    using enum ArgumentType;
    static constexpr TypeSet all = 0xff;
    static constexpr std::array<ArgumentField, 8> rows{{
        {.name = "type",
         .value = {&type_shape, parse_type},
         .description = "How the argument is made. Absent or empty means `Literal`.",
         .used_by = all},
        {.name = "value",
         .value = {&json::any_text, parse_value},
         .description = "The text. The default is empty, which is still an argument.",
         .used_by = set_of(literal)},
        {.name = "values",
         .value = {&argument_list_shape, parse_values},
         .description = "The parts, which are Arguments. No parts make an empty argument.",
         .used_by = set_of(concatenate)},
        {.name = "source",
         .value = {&json::any_text, parse_source},
         .description = "The name of an environment variable.",
         .used_by = reads_a_variable,
         .required_by = reads_a_variable},
        {.name = "multiplier",
         .value = {&json::any_integer, parse_multiplier},
         .description = "The factor. The default is 1, and 0 means 1.",
         .used_by = set_of(process_number)},
        {.name = "offset",
         .value = {&json::any_integer, parse_offset},
         .description = "What is added. The default is 0.",
         .used_by = set_of(process_number)},
        {.name = "width",
         .value = {&Width::shape, parse_width},
         .description = "The least number of characters, 1 to 20: zeros are put before the digits, after a minus sign. "
                        "Absent: no padding. An extension: other launchers of a ProcessConfiguration do not know it.",
         .used_by = set_of(process_number)},
        {.name = "ipFamily",
         .value = {&ip_family_shape, parse_ip_family},
         .description = "4 or 6.",
         .used_by = set_of(ip_list),
         .required_by = set_of(ip_list)},
    }};
    return rows;
}

}  // namespace triton::config
