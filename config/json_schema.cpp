#include "config/json_schema.h"

#include <type_traits>
#include <utility>

#include "config/document_tables.h"
#include "lib/json/text.h"

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
    json::append_json_string(out, key);
    out += ':';
    json::append_json_string(out, text);
}

/// "string or array" is two types; an optional key may be null too: absent.
void append_type(std::string& out, std::string_view names, bool is_required) {
    constexpr std::string_view between = " or ";
    bool const is_list = !is_required || names.contains(between);
    out.append("\"type\":").append(is_list ? "[" : "");
    for (Separator comma(","); !names.empty();) {
        std::size_t const end = names.find(between);
        out += comma.next();
        json::append_json_string(out, names.substr(0, end));
        names.remove_prefix(end == names.npos ? names.size() : end + between.size());
    }
    if (!is_required) out += ",\"null\"";
    if (is_list) out += ']';
}

std::string type_names() {
    std::string out = ",\"enum\":[\"\"";
    for (ArgumentTypeRow const& row : argument_types()) {
        out += ',';
        json::append_json_string(out, row.name);
    }
    return out += ",null]";
}

void append_choices(std::string& out, std::span<std::string_view const> choices, bool is_required) {
    if (choices.empty()) return;
    Separator comma(",");
    out += ",\"enum\":[";
    for (std::string_view const choice : choices) {
        out += comma.next();
        json::append_json_string(out, choice);
    }
    out += is_required ? "]" : ",null]";
}

/// What an object has, without saying that it is one: a key that may hold something else refers to it too.
template <class Object>
void append_properties(std::string& out) {
    std::string required;
    Separator comma(",");
    Separator required_comma(",");
    out += R"("additionalProperties":false,"properties":{)";
    for (Field<Object> const& field : fields_of<Object>()) {
        bool const is_required = field.need == Need::required;
        out += comma.next();
        json::append_json_string(out, field.name);
        out += ":{";
        append_type(out, field.json_type, is_required);
        out += field.constraints;
        append_choices(out, field.choices, is_required);
        if constexpr (std::is_same_v<Object, ArgumentDraft>) {
            if (field.name == "type") out += type_names();
        }
        append_member(out, "description", field.description);
        out += '}';
        if (!is_required) continue;
        required += required_comma.next();
        json::append_json_string(required, field.name);
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
    for (auto const& field : fields_of<ArgumentDraft>()) {
        if ((field.required_by & set_of(type.type)) == 0) continue;
        required += comma.next();
        json::append_json_string(required, field.name);
        properties += property_comma.next();
        json::append_json_string(properties, field.name);
        properties.append(":").append(stricter(field));
    }
    out += R"({"if":{"properties":{"type":{"const":)";
    json::append_json_string(out, type.name);
    out.append(R"(}},"required":["type"]},"then":{"required":[)").append(required);
    out.append(R"(],"properties":{)").append(properties).append("}}}");
}

void append_conditions(std::string& out) {
    Separator comma(",");
    out += ",\"allOf\":[";
    for (ArgumentTypeRow const& type : argument_types()) {
        bool is_needed = false;
        for (auto const& field : fields_of<ArgumentDraft>())
            is_needed |= (field.required_by & set_of(type.type)) != 0;
        if (!is_needed) continue;
        out += comma.next();
        append_condition(out, type);
    }
    out += ']';
}

/// An Argument as such, and inside `programs`, where a string is one too, also inside a Concatenate.
std::string argument_definition() {
    std::string out = R"("type":"object",)";
    append_properties<ArgumentDraft>(out);
    append_conditions(out);
    return out;
}

std::string program_argument_definition() {
    std::string out = argument_definition();
    auto const replace = [&out](std::string_view old_text, std::string_view new_text) {
        out.replace(out.find(old_text), old_text.size(), new_text);
    };
    replace(R"("type":"object")", R"("type":["string","object"])");
    replace("#/$defs/Argument", "#/$defs/ProgramArgument");
    return out;
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
    if (field.need == Need::required) return "required";
    if (field.need == Need::without_programs) return "required without `programs`";
    if (field.required_by != 0) return "required for " + names_of(field.required_by);
    return "optional";
}

/// "array of [Argument](#argument)": the type, and the section about what is in it.
template <class Object>
std::string type_text(Field<Object> const& field) {
    constexpr std::string_view reference = "#/$defs/";
    std::string out(field.json_type);
    std::size_t const at = field.constraints.find(reference);
    if (at == std::string_view::npos) return out;
    std::string_view name = field.constraints.substr(at + reference.size());
    name = name.substr(0, name.find('"'));
    if (name == "ProgramArgument") name = "Argument";
    std::string anchor(name);
    for (char& c : anchor)
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (out.ends_with("array") || field.constraints.contains("\"additionalProperties\"")) out += " of";
    return out.append(" [").append(name).append("](#").append(anchor).append(")");
}

std::string choices_text(std::span<std::string_view const> choices) {
    std::string out;
    Separator comma(", ");
    for (std::string_view const choice : choices)
        out.append(comma.next()).append("`").append(choice).append("`");
    return out.empty() ? out : "One of " + out + ". ";
}

template <class Object>
void append_table(std::string& out, std::string_view title, std::string_view introduction = {}) {
    constexpr bool has_types = std::is_same_v<Object, ArgumentDraft>;
    out.append("\n## ").append(title).append("\n\n");
    if (!introduction.empty()) out.append(introduction).append("\n\n");
    out.append("| Key | JSON type | |");
    out.append(has_types ? " Used by | Meaning |\n|---|---|---|---|---|\n" : " Meaning |\n|---|---|---|---|\n");
    for (Field<Object> const& field : fields_of<Object>()) {
        out.append("| `").append(field.name).append("` | ").append(type_text(field)).append(" | ").append(need(field));
        bool const is_for_all = names_of(field.used_by) == names_of(0xff);
        if (has_types) out.append(" | ").append(is_for_all ? "all types" : names_of(field.used_by));
        out.append(" | ").append(choices_text(field.choices)).append(field.description).append(" |\n");
    }
}

/// Calls `call` with each object of `programs` and its name: the definitions of the schema, the sections of the page.
template <class Call>
void for_each_definition(Call call) {
    call.template operator()<Program>("Program");
    call.template operator()<ScheduleDraft>("Schedule");
    call.template operator()<Backoff>("Backoff");
    call.template operator()<StartLimitDraft>("StartLimit");
    call.template operator()<Hook>("Hook");
    call.template operator()<Readiness>("Readiness");
    call.template operator()<Health>("Health");
    call.template operator()<LimitsDraft>("Limits");
    call.template operator()<LimitPair>("LimitPair");
    call.template operator()<process::CgroupLimits>("Cgroup");
    call.template operator()<process::CapabilitySettings>("Capabilities");
    call.template operator()<process::SeccompSettings>("Seccomp");
    call.template operator()<process::LandlockSettings>("Landlock");
    call.template operator()<Output>("Output");
    call.template operator()<ListenSocket>("Socket");
}

/// Either named programs, or one unnamed one, which has a version.
constexpr std::string_view forms = R"(,"if":{"properties":{"programs":{"type":"object"}},"required":["programs"]},)"
                                   R"("then":{"properties":{"arguments":{"type":"null"},"count":{"type":"null"}}},)"
                                   R"("else":{"properties":{"version":{"type":"string"}},"required":["version"]})";

}  // namespace

std::string json_schema() {
    std::string out =
        R"({"$schema":"https://json-schema.org/draft/2020-12/schema","title":"ProcessConfiguration","type":"object",)";
    append_properties<ProcessConfiguration>(out);
    out.append(forms).append(R"(,"$defs":{"Argument":{)").append(argument_definition());
    out.append(R"(},"ProgramArgument":{)").append(program_argument_definition()).append("}");
    for_each_definition([&out]<class Object>(std::string_view name) {
        out += ',';
        json::append_json_string(out, name);
        out += ":{";
        append_properties<Object>(out);
        out += '}';
    });
    return out += "}}\n";
}

std::string reference_markdown() {
    std::string out =
        "# ProcessConfiguration\n\nOne JSON object in UTF-8. Keys are case-sensitive; null for an optional key means "
        "that it is absent.\n";
    append_table<ProcessConfiguration>(out, "The document");
    append_table<ArgumentDraft>(out, "Argument", "Inside `programs` a string is an Argument too: a `Literal`.");
    out += "\n## Argument types\n\n| Type | Makes |\n|---|---|\n";
    for (ArgumentTypeRow const& row : argument_types()) {
        out.append("| `").append(row.name).append("` | ").append(row.description).append(" |\n");
    }
    out +=
        "\n## Values\n\nA duration is a string: `500ms`, `10s`, `1m30s`, at most a year. A size is a number of bytes, "
        "or a string with a unit: `64Mi` (Ki, Mi, Gi, Ti: powers of 1024), `10M` (k, M, G, T: powers of 1000). A "
        "signal "
        "is a string: `TERM`, `15`, `RTMIN+3`. A mode is a string of octal digits: `0660`.\n";
    for_each_definition([&out]<class Object>(std::string_view name) { append_table<Object>(out, name); });
    return out;
}

}  // namespace triton::config
