#include "config/json_schema.h"

#include <string_view>
#include <utility>

#include "config/document_tables.h"
#include "lib/json/schema.h"

namespace triton::config {

namespace {

std::string names_of(TypeSet types) {
    std::string out;
    for (ArgumentTypeRow const& row : argument_types()) {
        if ((types & set_of(row.type)) != 0) out.append(out.empty() ? "" : ", ").append(row.name);
    }
    return out;
}

template <class Object>
std::vector<json::DescribedKey> keys_of() {
    return json::described_keys<Object, Reading>();
}

/// The keys of an Argument, with the types that use each.
std::vector<json::DescribedKey> argument_keys() {
    auto keys = keys_of<ArgumentDraft>();
    auto const rows = table(TableOf<ArgumentDraft>{});
    for (std::size_t i = 0; i < keys.size(); ++i) {
        std::string const users = names_of(rows[i].used_by);
        keys[i].extra = users == names_of(0xff) ? "all types" : users;
        if (rows[i].required_by != 0) keys[i].need_text = "required for " + names_of(rows[i].required_by);
    }
    return keys;
}

/// Writes "if the type is Environment, then source is required", with what the key must then be, beyond its row.
void write_condition(json::Writer& out, ArgumentTypeRow const& type) {
    std::vector<ArgumentField> required;
    for (ArgumentField const& field : table(TableOf<ArgumentDraft>{})) {
        if ((field.required_by & set_of(type.type)) != 0) required.push_back(field);
    }
    if (required.empty()) return;
    out.open('{').key("if").open('{').key("properties").open('{').key("type").open('{').member("const", type.name);
    out.close('}').close('}').key("required").open('[').value("type").close(']').close('}');
    out.key("then").open('{').key("required").open('[');
    for (ArgumentField const& field : required)
        out.value(field.name);
    out.close(']').key("properties").open('{');
    for (ArgumentField const& field : required) {
        bool const is_text = field.value.shape->types == "string";
        out.key(field.name).raw(is_text ? R"({"type":"string","minLength":1})" : R"({"enum":[4,6]})");
    }
    out.close('}').close('}').close('}');
}

/// Describes an Argument. Inside `programs`, also in a Concatenate, a string is an Argument, too.
std::string argument_definition() {
    json::Writer out;
    out.open('{').member("type", "object");
    json::write_properties(out, argument_keys());
    out.key("allOf").open('[');
    for (ArgumentTypeRow const& type : argument_types())
        write_condition(out, type);
    return out.close(']').close('}').text();
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

/// Calls `call` with each object of `programs` and its name: the definitions of the schema, the sections of the page.
template <class Call>
void for_each_definition(Call call) {
    call.template operator()<Program>("Program");
    call.template operator()<ScheduleDraft>("Schedule");
    call.template operator()<Backoff>("Backoff");
    call.template operator()<StartLimitDraft>("StartLimit");
    call.template operator()<EnvironmentSource>("EnvironmentFile");
    call.template operator()<Stdin>("Stdin");
    call.template operator()<Tty>("Tty");
    call.template operator()<StopStep>("StopStep");
    call.template operator()<Hook>("Hook");
    call.template operator()<Readiness>("Readiness");
    call.template operator()<Health>("Health");
    call.template operator()<WatchedFiles>("Files");
    call.template operator()<LimitsDraft>("Limits");
    call.template operator()<LimitPair>("LimitPair");
    call.template operator()<process::CgroupLimits>("Cgroup");
    call.template operator()<process::CapabilitySettings>("Capabilities");
    call.template operator()<process::SeccompSettings>("Seccomp");
    call.template operator()<process::LandlockSettings>("Landlock");
    call.template operator()<Output>("Output");
    call.template operator()<Syslog>("Syslog");
    call.template operator()<ListenSocket>("Socket");
}

/// A document has either named programs, or one unnamed program, which has a version.
constexpr std::string_view forms = R"("if":{"properties":{"programs":{"type":"object"}},"required":["programs"]},)"
                                   R"("then":{"properties":{"arguments":{"type":"null"},"count":{"type":"null"}}},)"
                                   R"("else":{"properties":{"version":{"type":"string"}},"required":["version"]})";

}  // namespace

std::string json_schema() {
    json::Writer out;
    out.open('{').member("$schema", "https://json-schema.org/draft/2020-12/schema");
    out.member("title", "ProcessConfiguration").member("type", "object");
    json::write_properties(out, keys_of<ProcessConfiguration>());
    out.raw(forms).key("$defs").open('{');
    out.key("Argument").raw(argument_definition()).key("ProgramArgument").raw(program_argument_definition());
    for_each_definition([&out]<class Object>(std::string_view name) {
        out.key(name).open('{');
        json::write_properties(out, keys_of<Object>());
        out.close('}');
    });
    return out.close('}').close('}').text() + "\n";
}

std::string reference_markdown() {
    std::string out =
        "# ProcessConfiguration\n\nOne JSON object in UTF-8. Keys are case-sensitive; null for an optional key means "
        "that it is absent.\n";
    json::append_section(out, "The document", keys_of<ProcessConfiguration>());
    json::append_section(out, "Argument", argument_keys(),
                         "Inside `programs` a string is also an Argument: a `Literal`.", "Used by");
    out += "\n## Argument types\n\n| Type | Makes |\n|---|---|\n";
    for (ArgumentTypeRow const& row : argument_types()) {
        out.append("| `").append(row.name).append("` | ").append(row.description).append(" |\n");
    }
    out +=
        "\n## Values\n\nA duration is a string: `500ms`, `10s`, `1m30s`, at most a year. A size is a number of bytes, "
        "or a string with a unit: `64Mi` (Ki, Mi, Gi, Ti: powers of 1024), `10M` (k, M, G, T: powers of 1000). A "
        "signal "
        "is a string: `TERM`, `15`, `RTMIN+3`. A mode is a string of octal digits: `0660`.\n";
    for_each_definition(
        [&out]<class Object>(std::string_view name) { json::append_section(out, name, keys_of<Object>()); });
    return out;
}

}  // namespace triton::config
