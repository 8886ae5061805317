#include "config/json_schema.h"

#include <utility>

#include "config/document_tables.h"
#include "config/json_text.h"

namespace triton::config {

namespace {

/// Lists of JSON and English differ only in what stands between.
class Separator {
public:
    explicit Separator(std::string_view text) : text_(text) {}
    std::string_view next() { return std::exchange(is_first_, false) ? std::string_view{} : text_; }

private:
    std::string_view text_;
    bool is_first_ = true;
};

void append_member(std::string& out, std::string_view key, std::string_view text) {
    out += ',';
    append_json_string(out, key);
    out += ':';
    append_json_string(out, text);
}

/// An optional key may be null: absent.
void append_type(std::string& out, std::string_view name, bool is_required) {
    out += "\"type\":";
    if (!is_required) out += '[';
    append_json_string(out, name);
    if (!is_required) out += ",\"null\"]";
}

std::string type_names() {
    std::string out = ",\"enum\":[\"\"";
    for (ArgumentTypeRow const& row : argument_types()) {
        out += ',';
        append_json_string(out, row.name);
    }
    return out += ",null]";
}

template <class Object>
void append_object(std::string& out, std::span<Field<Object> const> fields) {
    std::string required;
    Separator comma(",");
    Separator required_comma(",");
    out += R"("type":"object","additionalProperties":false,"properties":{)";
    for (Field<Object> const& field : fields) {
        out += comma.next();
        append_json_string(out, field.name);
        out += ":{";
        append_type(out, field.json_type, field.is_required);
        out += field.constraints;
        if (field.name == "type") out += type_names();
        append_member(out, "description", field.description);
        out += '}';
        if (!field.is_required) continue;
        required += required_comma.next();
        append_json_string(required, field.name);
    }
    out += '}';
    if (!required.empty()) out.append(",\"required\":[").append(required).append("]");
}

/// What a required key must be, beyond what its row says of it everywhere.
std::string_view stricter(Field<ArgumentDraft> const& field) {
    return field.json_type == "string" ? R"({"type":"string","minLength":1})" : R"({"enum":[4,6]})";
}

/// "if the type is Environment, then source is required"
void append_condition(std::string& out, ArgumentTypeRow const& type) {
    std::string required;
    std::string properties;
    Separator comma(",");
    Separator property_comma(",");
    for (auto const& field : argument_fields()) {
        if ((field.required_by & set_of(type.type)) == 0) continue;
        required += comma.next();
        append_json_string(required, field.name);
        properties += property_comma.next();
        append_json_string(properties, field.name);
        properties.append(":").append(stricter(field));
    }
    out += R"({"if":{"properties":{"type":{"const":)";
    append_json_string(out, type.name);
    out.append(R"(}},"required":["type"]},"then":{"required":[)").append(required);
    out.append(R"(],"properties":{)").append(properties).append("}}}");
}

void append_conditions(std::string& out) {
    Separator comma(",");
    out += ",\"allOf\":[";
    for (ArgumentTypeRow const& type : argument_types()) {
        bool is_needed = false;
        for (auto const& field : argument_fields())
            is_needed |= (field.required_by & set_of(type.type)) != 0;
        if (!is_needed) continue;
        out += comma.next();
        append_condition(out, type);
    }
    out += ']';
}

/// "for Environment, IPList" or, when only some need it, "for all; needed by ..."
std::string names_of(TypeSet types) {
    std::string out;
    Separator comma(", ");
    for (ArgumentTypeRow const& row : argument_types()) {
        if ((types & set_of(row.type)) != 0) out.append(comma.next()).append(row.name);
    }
    return out;
}

template <class Object>
std::string need(Field<Object> const& field) {
    if (field.is_required) return "required";
    if (field.required_by != 0) return "required for " + names_of(field.required_by);
    return "optional";
}

template <class Object>
void append_table(std::string& out, std::string_view title, std::span<Field<Object> const> fields, bool has_types) {
    out.append("\n## ").append(title).append("\n\n| Key | JSON type | |");
    out.append(has_types ? " Used by | Meaning |\n|---|---|---|---|---|\n" : " Meaning |\n|---|---|---|---|\n");
    for (Field<Object> const& field : fields) {
        out.append("| `").append(field.name).append("` | ").append(field.json_type).append(" | ").append(need(field));
        bool const is_for_all = names_of(field.used_by) == names_of(0xff);
        if (has_types) out.append(" | ").append(is_for_all ? "all types" : names_of(field.used_by));
        out.append(" | ").append(field.description).append(" |\n");
    }
}

}  // namespace

std::string json_schema() {
    std::string out = R"({"$schema":"https://json-schema.org/draft/2020-12/schema","title":"ProcessConfiguration",)";
    append_object(out, process_configuration_fields());
    out += R"(,"$defs":{"Argument":{)";
    append_object(out, argument_fields());
    append_conditions(out);
    return out += "}}}\n";
}

std::string reference_markdown() {
    std::string out =
        "# ProcessConfiguration\n\nOne JSON object in UTF-8. Keys are case-sensitive; null for an optional key means "
        "that it "
        "is absent.\n";
    append_table(out, "The document", process_configuration_fields(), false);
    append_table(out, "Argument", argument_fields(), true);
    out += "\n## Argument types\n\n| Type | Makes |\n|---|---|\n";
    for (ArgumentTypeRow const& row : argument_types()) {
        out.append("| `").append(row.name).append("` | ").append(row.description).append(" |\n");
    }
    return out;
}

}  // namespace triton::config
