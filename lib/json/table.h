#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lib/json/reader.h"
#include "lib/json/shape.h"
#include "lib/json/text.h"
#include "lib/json/where.h"

namespace triton::json {

/// The table engine: an object of a document is a table of rows, one for each key. The parser, the warnings of unknown
/// keys, the JSON Schema and the reference page (lib/json/schema.h) are made from it.
///
/// A table is found by an overload beside the Object or the Context:
///
///     std::span<Field<Volume, Reading> const> table(TableOf<Volume, Reading>) {
///         static constexpr std::array<Field<Volume, Reading>, 2> rows{{
///             {.name = "size", .need = Need::required, .value = as<&Volume::size, Size>, .description = "Its size."},
///             {.name = "mode", .value = as<&Volume::mode, Octal<0777>>, .description = "Its mode. Default: 0700."},
///         }};
///         return rows;
///     }
///
/// A row may be of any type with these members, so that a table can have columns of its own.

/// What one reading collects. A document with more state of its own derives from it.
struct Reading {
    explicit Reading(std::size_t limit) : problems(limit), warnings(limit) {}

    ProblemList problems;
    ProblemList warnings;
};

enum class Need : std::uint8_t { optional, required };

/// A key that some documents need.
template <class Context>
struct NeededWhen {
    bool (*holds)(Context const& context) = nullptr;
    std::string_view text = {};  ///< for the reference page: "required without `programs`"
};

/// The type of a key, and its reader. `parse` is called if the key is there and not null (for a required
/// key also then), in the order of the table.
template <class Object, class Context>
struct Value {
    Shape const* shape = nullptr;
    void (*parse)(Node const& node, Where const& at, Object& object, Context& context) = nullptr;
};

/// One key of an object.
template <class Object, class Context = Reading>
struct Field {
    std::string_view name = {};
    Need need = Need::optional;
    NeededWhen<Context> needed_when = {};
    Value<Object, Context> value = {};
    std::string_view description = {};  ///< whole sentences, in Markdown
};

template <class Object, class Context = Reading>
struct TableOf {};

/// A kind of value: its type, and how it is read. Read returns nullopt exactly when it has added a problem.
template <auto Read, Shape const& shape_of>
struct Kind {
    static constexpr Shape const& shape = shape_of;
    static constexpr auto read = Read;
};

/// A value of that kind goes into one member, of the object or of a base of it.
template <auto Member, class Kind>
struct As {
    template <class Object, class Context>
    static void parse(Node const& node, Where const& at, Object& object, Context& context) {
        if (auto value = Kind::read(node, at, context)) object.*Member = std::move(*value);
    }
    template <class Object, class Context>
    constexpr operator Value<Object, Context>() const {  // NOLINT(google-explicit-constructor): a row's value
        return {&Kind::shape, parse<Object, Context>};
    }
};
template <auto Member, class Kind>
inline constexpr As<Member, Kind> as{};

/// "; did you mean \"<name>\"?" when one of the known names is similar.
std::string suggestion(std::string_view name, std::span<std::string_view const> known);

/// "; the keys are soft, hard" for a short table.
std::string known_keys(std::span<std::string_view const> known);

/// "an object (keys: soft, hard)"; of a long table the first few.
std::string object_with(std::span<std::string_view const> keys);

template <class Row>
std::vector<std::string_view> names_of(std::span<Row const> table) {
    std::vector<std::string_view> names;
    for (Row const& row : table)
        names.push_back(row.name);
    return names;
}

/// The suggestion among the names of a table's rows.
template <class Row>
std::string suggestion_from(std::string_view name, std::span<Row const> table) {
    return suggestion(name, names_of(table));
}

/// The value when it is of that type; else nullptr and a problem.
template <class T>
T const* expect(std::string_view wanted, Node const& node, Where const& at, Reading& reading) {
    T const* const value = node.get<T>();
    if (!value)
        reading.problems.add(at, std::string("expected ").append(wanted).append(", found ").append(node.kind()));
    return value;
}

/// Which rows of its table an object has.
template <class Object, class Context = Reading>
class Present {
public:
    [[nodiscard]] bool has(std::size_t row) const { return (bits_ & bit(row)) != 0; }
    /// `name` is one of the table.
    [[nodiscard]] bool has(std::string_view name) const { return is_among(bits_, name); }
    /// Whether it is there and something is wrong with it. `name` is one of the table.
    [[nodiscard]] bool is_faulty(std::string_view name) const { return is_among(faulty_, name); }
    void add(std::size_t row) { bits_ |= bit(row); }
    void add_faulty(std::size_t row) { faulty_ |= bit(row); }

    static constexpr std::size_t most_rows = 64;

private:
    static std::uint64_t bit(std::size_t row) { return std::uint64_t{1} << row; }
    /// An object has a few of its many rows, so that these are looked through.
    static bool is_among(std::uint64_t bits, std::string_view name) {
        auto const rows = table(TableOf<Object, Context>{});
        for (; bits != 0; bits &= bits - 1)
            if (rows[static_cast<std::size_t>(std::countr_zero(bits))].name == name) return true;
        return false;
    }

    std::uint64_t bits_ = 0;
    std::uint64_t faulty_ = 0;
};

/// The row of a key; rows.size() when it has none.
template <class Row>
std::size_t row_of(std::string_view key, std::span<Row const> rows) {
    return static_cast<std::size_t>(std::ranges::find(rows, key, &Row::name) - rows.begin());
}

/// What to write in place of a key that the table does not have: "; did you mean \"environment\"?". A table can have an
/// overload for names that other programs use. Empty: a similar name is suggested.
template <class Target, class Context>
std::string advice(TableOf<Target, Context>, std::string_view) {
    return {};
}

template <class Target, class Context>
void warn_of_unknown_keys(Object const& json, Where const& at, Context& reading) {
    auto const rows = table(TableOf<Target, Context>{});
    for (Member const& member : json) {
        if (row_of(member.key, rows) != rows.size()) continue;
        // the limit first: looking for a similar name is the slow part
        std::string meant;
        if (reading.warnings.has_room()) meant = advice(TableOf<Target, Context>{}, member.key);
        if (meant.empty() && reading.warnings.has_room()) meant = suggestion_from(member.key, rows);
        if (meant.empty() && reading.warnings.has_room()) meant = known_keys(names_of(rows));
        reading.warnings.add_key(at, member.key, "unknown key " + json::quoted(member.key) + meant);
    }
}

template <class Row, class Context>
bool is_required(Row const& row, Context const& context) {
    return row.need == Need::required || (row.needed_when.holds && row.needed_when.holds(context));
}

/// The rows of a table that may be missed, one bit each.
template <class Target, class Context>
std::uint64_t rows_that_may_be_required() {
    static std::uint64_t const found = [] {
        auto const rows = table(TableOf<Target, Context>{});
        std::uint64_t bits = 0;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            if (rows[i].need == Need::required || rows[i].needed_when.holds) bits |= std::uint64_t{1} << i;
        }
        return bits;
    }();
    return found;
}

/// Reads an object by the table of its fields.
template <class Target, class Context>
Present<Target, Context> parse_fields(Object const& json, Where const& at, Target& object, Context& context) {
    Present<Target, Context> present;
    auto const rows = table(TableOf<Target, Context>{});
    std::array<Node const*, Present<Target, Context>::most_rows> nodes;  // of the rows that are found
    std::uint64_t found = 0;
    bool is_all_known = true;
    for (Member const& member : json) {
        std::size_t const row = row_of(member.key, rows);
        std::uint64_t const bit = std::uint64_t{1} << row % nodes.size();
        if (row == rows.size()) {
            is_all_known = false;
        } else if ((found & bit) == 0) {  // the first of duplicates
            nodes.at(row) = &member.node;
            found |= bit;
        }
    }
    // Most of the rows are neither there nor missed.
    for (std::uint64_t left = found | rows_that_may_be_required<Target, Context>(); left != 0; left &= left - 1) {
        auto const i = static_cast<std::size_t>(std::countr_zero(left));
        Where const field_at{&at, rows[i].name};
        if ((found >> i & 1) == 0) {
            if (is_required(rows[i], context)) context.problems.add(field_at, "required key is missing");
            continue;
        }
        if (nodes.at(i)->template get<Null>() && !is_required(rows[i], context)) continue;
        present.add(i);
        std::size_t const problems_before = context.problems.count();
        rows[i].value.parse(*nodes.at(i), field_at, object, context);
        if (context.problems.count() != problems_before) present.add_faulty(i);
    }
    if (!is_all_known) warn_of_unknown_keys<Target>(json, at, context);
    return present;
}

struct NoCheck {
    template <class... Any>
    void operator()(Any const&...) const {}
};

/// Reads an object by its table; then Check(object, present, at, context) says what is wrong with it as a whole. Leaves
/// `object` as it is when the value is not an object.
template <auto Check = NoCheck{}, class Target, class Context>
bool read_object_into(Target& object, Node const& node, Where const& at, Context& context) {
    auto const* const json = node.template get<Object>();
    if (!json) {
        expect<Object>(object_with(names_of(table(TableOf<Target, Context>{}))), node, at, context);
        return false;
    }
    Present<Target, Context> const present = parse_fields(*json, at, object, context);
    Check(object, present, at, context);
    return true;
}

/// The same as a value of its own.
template <class Target, auto Check = NoCheck{}, class Context>
std::optional<Target> read_object(Node const& node, Where const& at, Context& context) {
    std::optional<Target> object(std::in_place);
    if (!read_object_into<Check>(*object, node, at, context)) object.reset();
    return object;
}

/// An object by its table, as a kind of value. `shape_of` names its definition.
template <class Target, Shape const& shape_of, auto Check = NoCheck{}>
struct Record {
    static constexpr Shape const& shape = shape_of;
    template <class Context>
    static std::optional<Target> read(Node const& node, Where const& at, Context& context) {
        return read_object<Target, Check>(node, at, context);
    }
};

}  // namespace triton::json
