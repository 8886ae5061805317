#include "programs/imgadm/listing.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "lib/base/nearest.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "lib/text/width.h"

namespace triton::program {

namespace {

json::Node text_node(std::string_view text) { return text.empty() ? json::Node{} : json::Node{std::string(text)}; }
json::Node number_node(std::uint64_t number) { return {static_cast<std::int64_t>(number)}; }

/// A column that is not a key of the manifest.
struct Computed {
    std::string_view name;
    json::Node (*value)(Listed const& image);
};
constexpr std::array<Computed, 11> computed{{
    {"published", [](Listed const& image) { return text_node(image.manifest->published_at.substr(0, 19)); }},
    {"pub", [](Listed const& image) { return text_node(image.manifest->published_at.substr(0, 10)); }},
    {"source", [](Listed const& image) { return text_node(image.source); }},
    {"size",
     [](Listed const& image) {
         if (image.installed) return number_node(image.installed->size);
         return image.manifest->files.empty() ? json::Node{} : number_node(image.manifest->files.front().size);
     }},
    {"clones",
     [](Listed const& image) { return image.installed ? number_node(image.installed->clones) : json::Node{}; }},
    {"reference",
     [](Listed const& image) { return image.installed ? text_node(image.installed->reference) : json::Node{}; }},
    {"digest", [](Listed const& image) { return image.installed ? text_node(image.installed->digest) : json::Node{}; }},
    {"platform",
     [](Listed const& image) { return image.installed ? text_node(image.installed->platform) : json::Node{}; }},
    {"tree", [](Listed const& image) { return image.installed ? text_node(image.installed->tree) : json::Node{}; }},
    {"installed_at",
     [](Listed const& image) {
         return image.installed ? number_node(static_cast<std::uint64_t>(image.installed->installed_at)) : json::Node{};
     }},
    {"pinned",
     [](Listed const& image) { return image.installed ? json::Node{image.installed->is_pinned} : json::Node{}; }},
}};

json::Node const* member(json::Node const& node, std::string_view name) {
    auto const* const object = node.get<json::Object>();
    if (!object) return nullptr;
    auto const found = std::ranges::find(*object, name, &json::Member::key);
    return found == object->end() ? nullptr : &found->node;
}

/// A computed value, or the manifest's value, as at "tags.role".
json::Node value_of(Listed const& image, std::string_view name) {
    auto const row = std::ranges::find(computed, name, &Computed::name);
    if (row != computed.end()) return row->value(image);
    json::Node const* node = &image.manifest->document;
    while (node && !name.empty()) {
        std::size_t const dot = name.find('.');
        node = member(*node, name.substr(0, dot));
        name = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
    }
    return node ? *node : json::Node{};
}

/// A value for people and filters: a text unchanged, anything else as JSON, "-" for nothing.
std::string text_of(json::Node const& node) {
    if (auto const* const text = node.get<std::string>()) return *text;
    if (node.get<json::Null>()) return "-";
    json::Writer out;
    out.value(node);
    return std::move(out).text();
}

Result<> check_name(std::string_view name, std::string_view what) {
    auto const names = column_names();
    if (std::ranges::find(names, name.substr(0, name.find('.'))) != names.end()) return {};
    std::vector<std::string_view> const views(names.begin(), names.end());
    auto const meant = nearest(name, views);
    return fail(std::string(what) + " " + json::quoted(name) + " does not exist" +
                (meant ? "; did you mean " + json::quoted(*meant) + "?" : ""));
}

Result<std::vector<std::string_view>> split_names(std::string_view text, std::string_view what) {
    std::vector<std::string_view> names;
    while (true) {
        std::size_t const comma = text.find(',');
        std::string_view name = text.substr(0, comma);
        TRY(check_name(name.starts_with('-') && what == "key" ? name.substr(1) : name, what));
        names.push_back(name);
        if (comma == std::string_view::npos) return names;
        text.remove_prefix(comma + 1);
    }
}

struct Filter {
    std::string_view name;
    std::string_view value;
    bool is_part = false;  ///< "=~": the value is somewhere in it

    [[nodiscard]] bool passes(Listed const& image) const {
        std::string const text = text_of(value_of(image, name));
        return is_part ? text.find(value) != std::string::npos : text == value;
    }
};

Result<std::vector<Filter>> parse_filters(std::span<std::string const> texts) {
    std::vector<Filter> filters;
    for (std::string_view const text : texts) {
        std::size_t const equals = text.find('=');
        if (equals == std::string_view::npos)
            return fail("filter " + json::quoted(text) + " is neither KEY=VALUE nor KEY=~PART");
        Filter filter{text.substr(0, equals), text.substr(equals + 1), false};
        TRY(check_name(filter.name, "key"));
        if (filter.value.starts_with('~')) {
            filter.is_part = true;
            filter.value.remove_prefix(1);
        }
        filters.push_back(filter);
    }
    return filters;
}

std::optional<long double> number_of(json::Node const& node) {
    if (auto const* const number = node.get<std::int64_t>()) return *number;
    auto const* const odd = node.get<json::OddNumber>();  // 1.5, or one of more than 64 bits
    if (!odd) return std::nullopt;
    long double number = 0;
    auto const [end, error] = std::from_chars(odd->text.data(), odd->text.data() + odd->text.size(), number);
    return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// Returns a negative number, zero or a positive one. Nothing comes first, then numbers by size, then the rest as text:
/// one order for all, although a tag may be a number in one image and a text in another.
int compare(json::Node const& a, json::Node const& b) {
    auto const number_a = number_of(a);
    auto const number_b = number_of(b);
    if (number_a && number_b) return *number_a < *number_b ? -1 : *number_a > *number_b ? 1 : 0;
    auto const rank = [](json::Node const& node, bool is_number) {
        return node.get<json::Null>() ? 0 : is_number ? 1 : 2;
    };
    if (int const order = rank(a, number_a.has_value()) - rank(b, number_b.has_value())) return order;
    return text_of(a).compare(text_of(b));
}

void sort_by(std::vector<Listed>& images, std::span<std::string_view const> keys) {
    std::ranges::stable_sort(images, [keys](Listed const& a, Listed const& b) {
        for (std::string_view key : keys) {
            bool const is_falling = key.starts_with('-');
            if (is_falling) key.remove_prefix(1);
            int const order = compare(value_of(a, key), value_of(b, key));
            if (order != 0) return is_falling ? order > 0 : order < 0;
        }
        return false;
    });
}

/// A field for programs, which find its end by an unescaped colon.
std::string parsable(std::string_view text) {
    std::string out;
    for (char const c : text) {
        if (c == ':' || c == '\\') out += '\\';
        out += c;
    }
    return out;
}

using Row = std::vector<std::string>;

std::string join_parsable(std::span<Row const> rows) {
    std::string out;
    for (Row const& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i)
            out += (i == 0 ? "" : ":") + row[i];
        out += '\n';
    }
    return out;
}

Row header_of(std::span<std::string_view const> columns) {
    Row row;
    for (std::string_view const column : columns) {
        std::string upper(column);
        std::ranges::transform(upper, upper.begin(),
                               [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
        row.push_back(std::move(upper));
    }
    return row;
}

void write_image(json::Writer& out, Listed const& image) {
    out.open('{').key("manifest").value(image.manifest->document).member("source", image.source);
    if (image.installed) {
        image::Image const& installed = *image.installed;
        if (!installed.reference.empty()) out.member("reference", installed.reference);
        if (!installed.digest.empty()) out.member("digest", installed.digest);
        if (!installed.platform.empty()) out.member("platform", installed.platform);
        out.member("tree", installed.tree)
            .member("installedAt", installed.installed_at)
            .member("size", installed.size)
            .member("clones", installed.clones)
            .member("pinned", installed.is_pinned);
    }
    out.close('}');
}

void append_indented(std::string& out, json::Node const& node, std::size_t level);

template <class List, class Append>
void append_list(std::string& out, List const& list, std::string_view brackets, std::size_t level, Append append) {
    out += brackets[0];
    char const* separator = "\n";
    for (auto const& item : list) {
        out.append(separator).append(2 * (level + 1), ' ');
        append(item);
        separator = ",\n";
    }
    if (!list.empty()) out.append("\n").append(2 * level, ' ');
    out += brackets[1];
}

/// Recurses as deeply as the document, whose depth the reader limits.
void append_indented(std::string& out, json::Node const& node, std::size_t level) {
    if (auto const* const array = node.get<json::Array>()) {
        append_list(out, *array, "[]", level, [&](json::Node const& item) { append_indented(out, item, level + 1); });
    } else if (auto const* const object = node.get<json::Object>()) {
        append_list(out, *object, "{}", level, [&](json::Member const& one) {
            json::append_json_string(out, one.key);
            out += ": ";
            append_indented(out, one.node, level + 1);
        });
    } else {
        json::Writer value;
        value.value(node);
        out += value.text();
    }
}

std::string render_json(std::span<Listed const> images) {
    json::Writer out;
    out.open('[');
    for (Listed const& image : images)
        write_image(out, image);
    out.close(']');
    json::ProblemList problems(1);
    auto const node =
        json::read_json(out.text(), {.document_bytes = SIZE_MAX, .depth = 64, .values = SIZE_MAX}, problems);
    return node ? indented(*node) + "\n" : std::move(out).text() + "\n";
}

}  // namespace

std::vector<Listed> listed(std::span<image::Image const> images) {
    std::vector<Listed> all;
    for (image::Image const& image : images)
        all.push_back({&image.manifest, image.source, &image});
    return all;
}

std::vector<Listed> listed(std::span<image::AvailableImage const> images) {
    std::vector<Listed> all;
    for (image::AvailableImage const& image : images)
        all.push_back({&image.manifest, image.source, nullptr});
    return all;
}

Result<std::string> render_list(std::span<Listed const> images, ListOptions const& options) {
    auto const columns = TRY(split_names(options.columns, "column"));
    std::vector<std::string_view> keys;
    if (!options.sort.empty()) keys = TRY(split_names(options.sort, "key"));
    auto const filters = TRY(parse_filters(options.filters));
    std::vector<Listed> shown;
    std::ranges::copy_if(images, std::back_inserter(shown), [&filters](Listed const& image) {
        return std::ranges::all_of(filters, [&image](Filter const& filter) { return filter.passes(image); });
    });
    sort_by(shown, keys);
    if (options.is_json) return render_json(shown);
    std::vector<Row> rows;
    if (!options.has_no_header && !options.is_parsable) rows.push_back(header_of(columns));
    for (Listed const& image : shown) {
        Row row;
        for (std::string_view const column : columns) {
            std::string text = text_of(value_of(image, column));
            row.push_back(text::printable(options.is_parsable ? parsable(text) : text));
        }
        rows.push_back(std::move(row));
    }
    return options.is_parsable ? join_parsable(rows) : text::aligned(rows);
}

std::string image_json(Listed const& image) {
    json::Writer out;
    write_image(out, image);
    json::ProblemList problems(1);
    auto const node =
        json::read_json(out.text(), {.document_bytes = SIZE_MAX, .depth = 64, .values = SIZE_MAX}, problems);
    return node ? indented(*node) + "\n" : std::move(out).text() + "\n";
}

std::string indented(json::Node const& node) {
    std::string out;
    append_indented(out, node, 0);
    return out;
}

std::vector<std::string> column_names() {
    std::vector<std::string> names;
    for (Computed const& row : computed)
        names.emplace_back(row.name);
    for (std::string_view const key : image::manifest_keys())
        names.emplace_back(key);
    return names;
}

}  // namespace triton::program
