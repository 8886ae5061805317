#include "host/machine/listing.h"

#include <algorithm>
#include <array>

#include <re2/re2.h>

#include "host/machine/nic.h"
#include "host/machine/properties.h"
#include "host/machine/values.h"
#include "lib/base/error_kinds.h"
#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "lib/text/width.h"

namespace triton::machine {

namespace {

constexpr std::size_t width_of_part = 20;

/// Columns of SmartOS for which a Linux container has no value: scripts written for SmartOS ask for them.
struct ForeignColumn {
    std::string_view name;
    std::size_t width;
};
constexpr auto foreign_columns = std::to_array<ForeignColumn>({{"cpu_type", 8},
                                                               {"docker", 6},
                                                               {"flexible_disk_size", 14},
                                                               {"free_space", 14},
                                                               {"qemu_extra_opts", 15},
                                                               {"vcpus", 5},
                                                               {"zone_state", 10},
                                                               {"zoneid", 6}});
/// Likewise for filters: "disks.0.size", "disks.*.size".
constexpr auto parts_of_disks = std::to_array<std::string_view>(
    {"boot", "image_name", "image_size", "image_uuid", "size", "media", "model", "zpool"});

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        std::size_t const end = std::min(text.find(separator), text.size());
        parts.push_back(text.substr(0, end));
        if (end == text.size()) return parts;
        text.remove_prefix(end + 1);
    }
}

template <class Rows>
bool has_row(Rows const& rows, std::string_view name) {
    return std::ranges::any_of(rows, [name](auto const& row) { return row.name == name; });
}

bool is_index(std::string_view text) { return integer_of(text).value_or(-1) >= 0; }

/// Whether the parts after the first dot are allowed: "nics.0.ip", "tags.role" and the like.
bool is_part(std::vector<std::string_view> const& parts, bool may_be_any) {
    Property const* const property = find_property(parts.front());
    if (!property) return false;
    if (property->rules.parts == Parts::keys) return parts.size() >= 2 && !parts[1].empty();
    if (property->rules.parts != Parts::objects || parts.size() != 3) return false;
    if (!is_index(parts[1]) && !(may_be_any && parts[1] == "*")) return false;
    return property->name == "nics" ? has_row(table(json::TableOf<Nic, json::Reading>{}), parts[2])
                                    : has_row(table(json::TableOf<Filesystem, json::Reading>{}), parts[2]);
}

bool is_part_of_disk(std::vector<std::string_view> const& parts, bool may_be_any) {
    return parts.size() == 3 && parts[0] == "disks" && (is_index(parts[1]) || (may_be_any && parts[1] == "*")) &&
           std::ranges::find(parts_of_disks, parts[2]) != parts_of_disks.end();
}

bool is_key(std::string_view key, bool may_be_any) {
    Property const* const property = find_property(key);
    if (property) return property->is_public();
    if (has_row(foreign_columns, key)) return true;
    if (key.find('.') == std::string_view::npos) return false;
    auto const parts = split(key, '.');
    return is_part(parts, may_be_any) || is_part_of_disk(parts, may_be_any);
}

std::unexpected<Error> no_such_key(std::string_view what, std::string_view key) {
    std::vector<std::string_view> known;
    for (Property const& property : properties())
        if (property.is_public()) known.push_back(property.name);
    std::string const meant = key.contains('.') ? "" : json::suggestion(key, known);
    return fail("Invalid " + std::string(what) + " key: " + json::quoted(key) + meant);
}

std::size_t width_of(std::string_view key) {
    auto const* const row = std::ranges::find(foreign_columns, key, &ForeignColumn::name);
    return row == foreign_columns.end() ? width_of_part : row->width;
}

/// Collects the values below a key. A key of an object may contain dots, so the whole rest is tried as one key first.
void collect(json::Node const& node, std::string_view key, std::vector<json::Node const*>& found) {
    if (json::Node const* const whole = json::member(node, key)) {
        found.push_back(whole);
        return;
    }
    std::size_t const dot = key.find('.');
    std::string_view const first = key.substr(0, dot);
    std::string_view const rest = dot == std::string_view::npos ? "" : key.substr(dot + 1);
    auto const go_on = [&](json::Node const& below) {
        if (rest.empty())
            found.push_back(&below);
        else
            collect(below, rest, found);
    };
    if (auto const* const list = node.get<json::Array>()) {
        if (first == "*") std::ranges::for_each(*list, go_on);
        auto const index = integer_of(first);
        if (index && *index >= 0 && static_cast<std::size_t>(*index) < list->size())
            go_on((*list)[static_cast<std::size_t>(*index)]);
    } else if (json::Node const* const below = json::member(node, first); below && !rest.empty()) {
        collect(*below, rest, found);
    }
}

std::string cell_text(json::Node const& node) {
    if (auto const* const text = node.get<std::string>()) return *text;
    if (auto const* const list = node.get<json::Array>()) {
        std::string joined;
        for (json::Node const& element : *list)
            joined += (joined.empty() ? "" : ",") + cell_text(element);
        return joined;
    }
    json::Writer out;
    out.value(node);
    return std::move(out).text();
}

json::Node const* first_at(json::Node const& machine, std::string_view key) {
    std::vector<json::Node const*> found;
    collect(machine, key, found);
    return found.empty() ? nullptr : found.front();
}

/// Compares values: missing ones come first, then numbers by size, then the rest as text: one order for all, although a
/// tag may be a number of one machine and a text of another.
std::strong_ordering compare(json::Node const* left, json::Node const* right) {
    if (!left || !right) return (left != nullptr) <=> (right != nullptr);
    auto const* const left_number = left->get<std::int64_t>();
    auto const* const right_number = right->get<std::int64_t>();
    if (left_number && right_number) return *left_number <=> *right_number;
    if (left_number || right_number) return (left_number == nullptr) <=> (right_number == nullptr);
    return cell_text(*left) <=> cell_text(*right);
}

void add_line(std::string& out, std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
}

void write_pretty(json::Node const& node, std::size_t depth, std::string& out) {
    std::string const inner((depth + 1) * 2, ' ');
    std::string const outer(depth * 2, ' ');
    auto const* const object = node.get<json::Object>();
    auto const* const array = node.get<json::Array>();
    if (object && !object->empty()) {
        out += "{";
        for (std::size_t i = 0; i < object->size(); ++i) {
            out += (i ? ",\n" : "\n") + inner;
            json::append_json_string(out, (*object)[i].key);
            out += ": ";
            write_pretty((*object)[i].node, depth + 1, out);
        }
        out += "\n" + outer + "}";
    } else if (array && !array->empty()) {
        out += "[";
        for (std::size_t i = 0; i < array->size(); ++i) {
            out += (i ? ",\n" : "\n") + inner;
            write_pretty((*array)[i], depth + 1, out);
        }
        out += "\n" + outer + "]";
    } else {
        json::Writer leaf;
        leaf.value(node);
        out += leaf.text();
    }
}

}  // namespace

Result<Filter> Filter::parse(std::string_view text, std::string_view what) {
    std::size_t const equals = text.find('=');
    if (equals == std::string_view::npos) return fail(json::quoted(text) + " is not a condition: expected KEY=VALUE");
    Filter filter;
    filter.key_ = text.substr(0, equals);
    filter.value_ = text.substr(equals + 1);
    if (!is_key(filter.key_, true)) return no_such_key(what, filter.key_);
    Property const* const property = find_property(filter.key_);
    if (property) filter.key_ = property->name;
    bool const is_uuid = property && property->value.shape == &uuid_shape;
    if (filter.value_.starts_with("~")) {
        TRY(filter.compile(std::string_view(filter.value_).substr(1)));
    } else if (auto mac = canonical_mac(filter.value_); mac && filter.key_.ends_with(".mac")) {
        filter.value_ = std::move(*mac);
    } else if (auto const uuid = Uuid::parse(filter.value_); uuid && is_uuid) {
        filter.value_ = uuid->text();
    } else if (property && !filter.value_.empty()) {
        TRY(filter.normalise(*property));
    }
    return filter;
}

/// Brings the value into the form that machines have it in. What no machine can have is a mistake, unlike what none
/// has.
Result<> Filter::normalise(Property const& property) {
    if (property.name == "state") {
        auto const known = names_of_states();
        if (std::ranges::find(known, value_) != known.end()) return {};
        return fail("state: " + json::quoted(value_) + " is not a state" + json::suggestion(value_, known));
    }
    json::Shape const* const shape = property.value.shape;
    bool const is_number = shape && shape->types == "integer";
    if (shape && shape->types == "boolean" && value_ != "true" && value_ != "false")
        return fail(std::string(property.name) + ": expected true or false, found " + json::quoted(value_));
    if (!is_number) return {};
    if (auto const number = integer_of(value_)) {
        value_ = std::to_string(*number);
        return {};
    }
    // A size with a unit, of what payloads set.
    Property const& set = property.name == "ram" ? *find_property("max_physical_memory") : property;
    json::Reading reading(1);
    json::Where const top{};
    Machine machine;
    set.value.parse(json::Node{value_}, json::Where{&top, property.name}, machine, reading);
    if (!reading.problems.empty()) return fail(std::move(reading.problems).take().front().text());
    value_ = value_text(set, machine);
    return {};
}

/// Compiles a pattern that ignores the case of letters. One whose states do not fit into the memory is searched for
/// more slowly, but still in linear time.
Result<> Filter::compile(std::string_view pattern) {
    if (pattern.size() > longest_pattern)
        return fail(key_ + ": the pattern is longer than " + std::to_string(longest_pattern) + " bytes");
    re2::RE2::Options options;
    options.set_case_sensitive(false);
    options.set_log_errors(false);
    options.set_max_mem(std::int64_t{1} << 20);
    auto compiled = std::make_shared<re2::RE2>(re2::StringPiece(pattern.data(), pattern.size()), options);
    if (!compiled->ok()) return fail(key_ + ": " + json::quoted(pattern) + " is not a regular expression");
    pattern_ = std::move(compiled);
    return {};
}

bool Filter::matches(json::Node const& machine) const {
    std::vector<json::Node const*> found;
    collect(machine, key_, found);
    return std::ranges::any_of(found, [&](json::Node const* node) {
        std::string const text = cell_text(*node);
        return pattern_ ? re2::RE2::PartialMatch(text, *pattern_) : text == value_;
    });
}

std::string_view Filter::property() const { return std::string_view(key_).substr(0, key_.find('.')); }

bool matches_all(std::span<Filter const> filters, json::Node const& machine) {
    return std::ranges::all_of(filters, [&machine](Filter const& filter) { return filter.matches(machine); });
}

Result<std::vector<ListColumn>> parse_columns(std::string_view text, std::string_view what) {
    std::vector<ListColumn> columns;
    for (std::string_view const name : split(text, ',')) {
        if (!is_key(name, false)) return no_such_key(what, name);
        Property const* const property = find_property(name);
        if (property) {
            std::size_t const width = property->rules.column.width;
            columns.push_back({std::string(property->name), property->title(), width ? width : width_of_part});
            continue;
        }
        std::string title(name);
        std::ranges::transform(title, title.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c & ~0x20 : c; });
        columns.push_back({std::string(name), std::move(title), width_of(name)});
    }
    return columns;
}

Result<std::vector<SortKey>> parse_sort_keys(std::string_view text) {
    std::vector<SortKey> keys;
    for (std::string_view name : split(text, ',')) {
        bool const is_descending = name.starts_with("-");
        if (is_descending || name.starts_with("+")) name.remove_prefix(1);
        if (!is_key(name, false)) return no_such_key("sort", name);
        Property const* const property = find_property(name);
        keys.push_back({std::string(property ? property->name : name), is_descending});
    }
    return keys;
}

void sort_machines(std::vector<json::Node>& machines, std::span<SortKey const> keys) {
    std::ranges::stable_sort(machines, [keys](json::Node const& left, json::Node const& right) {
        for (SortKey const& key : keys) {
            auto const order = compare(first_at(left, key.key), first_at(right, key.key));
            if (order != 0) return key.is_descending ? order > 0 : order < 0;
        }
        return false;
    });
}

std::string text_at(json::Node const& machine, std::string_view key) {
    json::Node const* const node = first_at(machine, key);
    return node ? cell_text(*node) : "";
}

std::string table_text(std::span<json::Node const> machines, std::span<ListColumn const> columns, bool with_header) {
    std::string out;
    std::string header;
    for (ListColumn const& column : columns)
        header += text::padded(column.title, column.width) + "  ";
    if (with_header) add_line(out, std::move(header));
    for (json::Node const& machine : machines) {
        std::string line;
        for (ListColumn const& column : columns) {
            std::string text = text::printable(text_at(machine, column.key));
            // People read this column to see whether a machine is up; programs read `-p` and `-j`, where it is one
            // word.
            std::string const awaited = column.key == "state" ? text_at(machine, "waits_for") : "";
            if (!awaited.empty()) text += ", waits for " + text::printable(awaited);
            if (column.key == "type") text.resize(std::min<std::size_t>(text.size(), 4));
            line += text::padded(text.empty() ? "-" : std::move(text), column.width) + "  ";
        }
        add_line(out, std::move(line));
    }
    return out;
}

std::string parsable_text(std::span<json::Node const> machines, std::span<ListColumn const> columns, bool with_header) {
    std::string out;
    for (std::size_t i = 0; with_header && i < columns.size(); ++i)
        out += columns[i].title + (i + 1 < columns.size() ? ":" : "\n");
    for (json::Node const& machine : machines) {
        for (std::size_t i = 0; i < columns.size(); ++i) {
            if (i) out += ':';
            std::string value;
            for (char const c : text_at(machine, columns[i].key)) {
                if (c == ':' || c == '\\') value += '\\';
                if (c == '\n')
                    value += "\\n";
                else
                    value += c;
            }
            out += text::printable(value);
        }
        out += '\n';
    }
    return out;
}

std::string pretty(json::Node const& node) {
    std::string out;
    write_pretty(node, 0, out);
    return out + "\n";
}

json::Node selection(json::Node const& machine, std::span<ListColumn const> columns) {
    json::Object object;
    for (ListColumn const& column : columns) {
        if (json::Node const* const node = first_at(machine, column.key)) object.push_back({column.key, *node});
    }
    return json::Node{std::move(object)};
}

std::string error_text(Error const& error, bool as_json) {
    if (as_json) {
        json::Writer out;
        out.open('{').key("error").open('{');
        out.member("code", row_of(error.kind).name).member("message", error.text());
        out.key("details").list(error.details).close('}').close('}');
        return std::move(out).text() + "\n";
    }
    std::string text = text::printable(error.text()) + "\n";
    for (std::string const& detail : error.details)
        text += "  " + text::printable(detail) + "\n";
    return text;
}

}  // namespace triton::machine
