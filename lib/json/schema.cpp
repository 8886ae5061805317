#include "lib/json/schema.h"

#include <utility>

namespace triton::json {

namespace {

constexpr std::string_view between_types = " or ";

/// Calls `call` with each type of "string or array".
template <class Call>
void for_each_type(std::string_view types, Call call) {
    while (!types.empty()) {
        std::size_t const end = types.find(between_types);
        call(types.substr(0, end));
        types.remove_prefix(end == types.npos ? types.size() : end + between_types.size());
    }
}

void write_type(Writer& out, std::string_view types, bool takes_null) {
    if (types.empty()) return;
    bool const is_list = takes_null || types.contains(between_types);
    out.key("type");
    if (is_list) out.open('[');
    for_each_type(types, [&out](std::string_view type) { out.value(type); });
    if (takes_null) out.value("null");
    if (is_list) out.close(']');
}

void write_enum(Writer& out, std::span<std::string_view const> choices, bool takes_null) {
    out.key("enum").open('[');
    for (std::string_view const choice : choices)
        out.value(choice);
    if (takes_null) out.raw("null");
    out.close(']');
}

/// Writes a shape that is one of the words, or one of the other types.
void write_words(Writer& out, Shape const& shape, bool takes_null) {
    out.key("anyOf").open('[').open('{');
    write_enum(out, shape.words, takes_null);
    out.close('}');
    for_each_type(shape.types, [&out](std::string_view type) {
        if (type != "string") out.open('{').member("type", type).close('}');
    });
    out.close(']');
}

void write_reference(Writer& out, std::string_view definition) {
    out.member("$ref", "#/$defs/" + std::string(definition));
}

void write_shape(Writer& out, Shape const& shape, bool takes_null);

void write_elements(Writer& out, Shape const& shape) {
    if (!shape.names.empty()) out.key("propertyNames").open('{').member("pattern", shape.names).close('}');
    if (shape.fewest > 0) out.member("minItems", shape.fewest);
    out.key(shape.types.contains("array") ? "items" : "additionalProperties").open('{');
    write_shape(out, *shape.elements, false);
    out.close('}');
}

void write_shape(Writer& out, Shape const& shape, bool takes_null) {
    write_type(out, shape.types, takes_null);
    if (shape.lowest) out.member("minimum", *shape.lowest);
    if (!shape.least.empty()) out.key("minimum").raw(shape.least);
    if (shape.highest) out.member("maximum", *shape.highest);
    if (shape.shortest > 0) out.member("minLength", shape.shortest);
    if (shape.longest > 0) out.member("maxLength", shape.longest);
    if (!shape.pattern.empty()) out.member("pattern", shape.pattern);
    if (!shape.words.empty()) write_words(out, shape, takes_null);
    if (!shape.definition.empty()) write_reference(out, shape.definition);
    if (shape.elements) write_elements(out, shape);
    if (!shape.further.empty()) out.raw(shape.further);
    if (!shape.choices.empty()) write_enum(out, shape.choices, takes_null);
}

std::string_view section_of(Shape const& shape) { return shape.section.empty() ? shape.definition : shape.section; }

/// "array of [Argument](#argument)": the type, and the section about what is in it.
std::string type_text(Shape const& shape) {
    std::string out(shape.types);
    std::string_view name = section_of(shape);
    if (name.empty() && shape.elements) {
        name = section_of(*shape.elements);
        if (!name.empty()) out += " of";
    }
    if (name.empty()) return out;
    std::string anchor(name);
    for (char& c : anchor)
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return out.append(" [").append(name).append("](#").append(anchor).append(")");
}

std::string choices_text(std::span<std::string_view const> choices) {
    std::string out;
    for (std::string_view const choice : choices) {
        if (!choice.empty()) out.append(out.empty() ? "One of `" : ", `").append(choice).append("`");
    }
    return out.empty() ? out : out + ". ";
}

}  // namespace

void write_properties(Writer& out, std::span<DescribedKey const> keys) {
    std::vector<std::string_view> required;
    out.member("additionalProperties", false).key("properties").open('{');
    for (DescribedKey const& key : keys) {
        bool const is_required = key.need == Need::required;
        if (is_required) required.push_back(key.name);
        out.key(key.name).open('{');
        write_shape(out, *key.shape, !is_required);
        out.member("description", key.description).close('}');
    }
    out.close('}');
    if (!required.empty()) out.key("required").list(required);
}

void append_section(std::string& out, std::string_view title, std::span<DescribedKey const> keys,
                    std::string_view introduction, std::string_view extra) {
    out.append("\n## ").append(title).append("\n\n");
    if (!introduction.empty()) out.append(introduction).append("\n\n");
    out.append("| Key | JSON type | |");
    if (!extra.empty()) out.append(" ").append(extra).append(" |");
    out.append(extra.empty() ? " Meaning |\n|---|---|---|---|\n" : " Meaning |\n|---|---|---|---|---|\n");
    for (DescribedKey const& key : keys) {
        out.append("| `").append(key.name).append("` | ").append(type_text(*key.shape));
        out.append(" | ").append(key.need_text);
        if (!extra.empty()) out.append(" | ").append(key.extra);
        out.append(" | ").append(choices_text(key.shape->choices)).append(key.description).append(" |\n");
    }
}

namespace {

/// A text of the table for scdoc: what is between backticks is bold.
std::string manual_text(std::string_view text) {
    std::string out;
    for (char const c : text) {
        if (c == '*' || c == '\\' || c == '#' || c == '<' || c == '_') out += '\\';
        out += c == '`' ? '*' : c;
    }
    return out;
}

}  // namespace

void append_manual_section(std::string& out, std::string_view title, std::span<DescribedKey const> keys,
                           std::string_view introduction) {
    out.append("\n# ").append(title).append("\n\n");
    if (!introduction.empty()) out.append(introduction).append("\n\n");
    for (DescribedKey const& key : keys) {
        out.append("*").append(manual_text(key.name)).append("* (");
        out.append(key.shape->types.empty() ? "object" : key.shape->types).append(", ").append(key.need_text);
        if (!key.extra.empty()) out.append(", ").append(key.extra);
        out.append(")\n\t").append(manual_text(choices_text(key.shape->choices)));
        out.append(manual_text(key.description)).append("\n\n");
    }
    while (out.ends_with("\n\n"))
        out.pop_back();
}

}  // namespace triton::json
