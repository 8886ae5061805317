#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/document_tables.h"
#include "lib/json/text.h"

namespace triton::config {

/// What the parsers of all tables share: from a JSON value to a checked one, or a problem. Each read_..() returns
/// nullopt exactly when it has added a problem.

/// The value when it is of that kind; else nullptr and a problem.
template <class T>
T const* expect(std::string_view wanted, json::Node const& node, json::Where const& at, Reading& reading) {
    T const* const value = node.get<T>();
    if (!value) {
        reading.problems.add(at, std::string("expected ").append(wanted).append(", found ").append(node.kind()));
    }
    return value;
}

std::string const* expect_string(json::Node const& node, json::Where const& at, Reading& reading);
std::int64_t const* expect_integer(json::Node const& node, json::Where const& at, Reading& reading);

/// "; did you mean \"<name>\"?" when one of the known names is similar.
std::string suggestion(std::string_view name, std::span<std::string_view const> known);

/// The same for the names of a table's rows.
template <class Row>
std::string suggestion_from(std::string_view name, std::span<Row const> table) {
    std::vector<std::string_view> known;
    for (Row const& row : table)
        known.push_back(row.name);
    return suggestion(name, known);
}

/// Which rows of its table an object has.
template <class Object>
class Present {
public:
    [[nodiscard]] bool has(std::size_t row) const { return (bits_ & bit(row)) != 0; }
    /// `name` is one of the table.
    [[nodiscard]] bool has(std::string_view name) const { return has(row_of(name)); }
    /// Whether it is there and something is wrong with it. `name` is one of the table.
    [[nodiscard]] bool is_faulty(std::string_view name) const { return (faulty_ & bit(row_of(name))) != 0; }
    void add(std::size_t row) { bits_ |= bit(row); }
    void add_faulty(std::size_t row) { faulty_ |= bit(row); }

private:
    static std::uint64_t bit(std::size_t row) { return std::uint64_t{1} << row; }
    static std::size_t row_of(std::string_view name) {
        auto const fields = fields_of<Object>();
        return static_cast<std::size_t>(std::ranges::find(fields, name, &Field<Object>::name) - fields.begin());
    }

    std::uint64_t bits_ = 0;  // no table has more rows; a test counts them
    std::uint64_t faulty_ = 0;
};

template <class Object>
void warn_of_unknown_keys(json::Object const& json, json::Where const& at, Reading& reading) {
    auto const fields = fields_of<Object>();
    for (json::Member const& member : json) {
        if (std::ranges::find(fields, member.key, &Field<Object>::name) != fields.end()) continue;
        // the limit first: looking for a similar name is the slow part
        std::string const meant = reading.warnings.has_room() ? suggestion_from(member.key, fields) : "";
        reading.warnings.add(at, "unknown key " + json::quoted(member.key) + meant);
    }
}

template <class Object>
bool is_required(Field<Object> const& field, Reading const& reading) {
    return field.need == Need::required || (field.need == Need::without_programs && !reading.has_programs);
}

/// Reads an object by the table of its fields.
template <class Object>
Present<Object> parse_fields(json::Object const& json, json::Where const& at, Object& object, Reading& reading) {
    Present<Object> present;
    auto const fields = fields_of<Object>();
    for (std::size_t i = 0; i < fields.size(); ++i) {
        json::Where const field_at{&at, fields[i].name};
        auto const member = std::ranges::find(json, fields[i].name, &json::Member::key);
        if (member == json.end()) {
            if (is_required(fields[i], reading)) reading.problems.add(field_at, "required key is missing");
            continue;
        }
        if (member->node.template get<json::Null>() && !is_required(fields[i], reading)) continue;
        present.add(i);
        std::size_t const problems_before = reading.problems.count();
        fields[i].parse(member->node, field_at, object, reading);
        if (reading.problems.count() != problems_before) present.add_faulty(i);
    }
    warn_of_unknown_keys<Object>(json, at, reading);
    return present;
}

template <class Object>
void check_nothing(Object const&, Present<Object>, json::Where const&, Reading&) {}

/// An object by its table; then Check says what is wrong with it as a whole.
template <class Object, auto Check = check_nothing<Object>>
std::optional<Object> read_object(json::Node const& node, json::Where const& at, Reading& reading) {
    auto const* const json = expect<json::Object>("an object", node, at, reading);
    if (!json) return std::nullopt;
    Object object;
    Present<Object> const present = parse_fields(*json, at, object, reading);
    Check(object, present, at, reading);
    return object;
}

/// The parser of a row whose value goes into one member, of the object or of a base of it, as it was read.
template <auto Member, auto Read>
constexpr auto into = [](json::Node const& node, json::Where const& at, auto& object, Reading& reading) {
    if (auto value = Read(node, at, reading)) object.*Member = std::move(*value);
};

std::optional<bool> read_boolean(json::Node const& node, json::Where const& at, Reading& reading);
/// A string that is not empty.
std::optional<std::string> read_text(json::Node const& node, json::Where const& at, Reading& reading);
std::optional<std::string> read_absolute_path(json::Node const& node, json::Where const& at, Reading& reading);
/// "10s", at most a year: a sum of a few of them still fits every clock.
std::optional<Milliseconds> read_duration(json::Node const& node, json::Where const& at, Reading& reading);
std::optional<Milliseconds> read_duration_above_zero(json::Node const& node, json::Where const& at, Reading& reading);
/// Bytes, as an integer or as a text ("64Mi").
std::optional<std::uint64_t> read_size(json::Node const& node, json::Where const& at, Reading& reading);
std::optional<std::uint64_t> read_size_above_zero(json::Node const& node, json::Where const& at, Reading& reading);
std::optional<int> read_signal(json::Node const& node, json::Where const& at, Reading& reading);
/// "0027": octal digits, up to `highest`.
std::optional<std::uint32_t> read_octal(json::Node const& node, json::Where const& at, std::uint32_t highest,
                                        Reading& reading);
std::optional<process::IdOrName> read_id_or_name(json::Node const& node, json::Where const& at, Reading& reading);
std::optional<std::int64_t> read_integer_within(json::Node const& node, json::Where const& at, std::int64_t lowest,
                                                std::int64_t highest, Reading& reading);
/// `range`: "0.01 to 10", for the message: to_chars() of a double would take 100 kB of the binary.
std::optional<double> read_number_within(json::Node const& node, json::Where const& at, double lowest, double highest,
                                         std::string_view range, Reading& reading);
std::optional<std::size_t> read_choice_index(json::Node const& node, json::Where const& at,
                                             std::span<std::string_view const> choices, Reading& reading);
/// An Argument that is a value by itself.
std::optional<Argument> read_argument(json::Node const& node, json::Where const& at, Reading& reading);
std::optional<std::vector<Argument>> read_arguments(json::Node const& node, json::Where const& at, Reading& reading);
/// The same, but at least one.
std::optional<std::vector<Argument>> read_command(json::Node const& node, json::Where const& at, Reading& reading);
Argument parse_argument(json::Node const& node, json::Where const& at, Reading& reading);

template <class T, std::int64_t lowest, std::int64_t highest>
std::optional<T> read_integer(json::Node const& node, json::Where const& at, Reading& reading) {
    static_assert(std::in_range<T>(lowest) && std::in_range<T>(highest));
    auto const value = read_integer_within(node, at, lowest, highest, reading);
    return value ? std::optional(static_cast<T>(*value)) : std::nullopt;
}

template <std::uint32_t highest>
std::optional<std::uint32_t> read_octal_up_to(json::Node const& node, json::Where const& at, Reading& reading) {
    return read_octal(node, at, highest, reading);
}

template <int lowest, int highest>
std::optional<double> read_number(json::Node const& node, json::Where const& at, Reading& reading) {
    return read_number_within(node, at, lowest, highest, std::to_string(lowest) + " to " + std::to_string(highest),
                              reading);
}

/// One of the names; the enum has its values in the same order.
template <class Enum, auto const& names>
std::optional<Enum> read_choice(json::Node const& node, json::Where const& at, Reading& reading) {
    auto const index = read_choice_index(node, at, names, reading);
    return index ? std::optional(static_cast<Enum>(*index)) : std::nullopt;
}

/// An array; what cannot be read is left out.
template <auto Read>
auto read_list(json::Node const& node, json::Where const& at, Reading& reading) {
    using Element = decltype(Read(node, at, reading))::value_type;
    std::optional<std::vector<Element>> list;
    auto const* const array = expect<json::Array>("an array", node, at, reading);
    if (!array) return list;
    list.emplace();
    for (std::size_t i = 0; i < array->size(); ++i) {
        if (auto element = Read((*array)[i], json::Where{&at, i}, reading)) list->push_back(std::move(*element));
    }
    return list;
}

// For the tables: parsers and the constraints that belong to them.

template <auto Member>
constexpr auto as_boolean = into<Member, read_boolean>;
template <auto Member>
constexpr auto as_text = into<Member, read_text>;
template <auto Member>
constexpr auto as_path = into<Member, read_absolute_path>;
template <auto Member>
constexpr auto as_duration = into<Member, read_duration>;
template <auto Member>
constexpr auto as_duration_above_zero = into<Member, read_duration_above_zero>;
template <auto Member>
constexpr auto as_signal = into<Member, read_signal>;
template <auto Member>
constexpr auto as_id_or_name = into<Member, read_id_or_name>;
template <auto Member>
constexpr auto as_command = into<Member, read_command>;

constexpr std::string_view without_nul = R"(,"pattern":"^[^\\u0000]*$")";
constexpr std::string_view some_text = R"(,"minLength":1,"pattern":"^[^\\u0000]*$")";
constexpr std::string_view absolute_path = R"(,"pattern":"^/[^\\u0000]*$")";
constexpr std::string_view absolute_paths = R"(,"items":{"type":"string","pattern":"^/[^\\u0000]*$"})";
constexpr std::string_view some_texts = R"(,"items":{"type":"string","minLength":1,"pattern":"^[^\\u0000]*$"})";
constexpr std::string_view duration_text =
    R"(,"pattern":"^([0-9]+(\\.[0-9]+)?(h|m|s|ms|us|ns))+$|^[0-9]+(\\.[0-9]+)?$")";
constexpr std::string_view size_text = R"(,"minimum":1,"pattern":"^[0-9]+(\\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$")";
constexpr std::string_view signal_text = R"(,"pattern":"^[A-Za-z0-9]+([+-][0-9]+)?$")";
constexpr std::string_view octal_text = R"(,"pattern":"^[0-7]+$")";
constexpr std::string_view id_or_name = R"(,"minimum":0,"maximum":4294967294,"minLength":1)";
constexpr std::string_view argument_list = R"(,"items":{"$ref":"#/$defs/Argument"})";
constexpr std::string_view program_arguments = R"(,"items":{"$ref":"#/$defs/ProgramArgument"})";
constexpr std::string_view program_command = R"(,"minItems":1,"items":{"$ref":"#/$defs/ProgramArgument"})";

}  // namespace triton::config
