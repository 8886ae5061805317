#include "config/json_schema.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "config/process_configuration.h"

namespace triton::config {
namespace {

using Json = nlohmann::json;

TEST(JsonSchema, SaysWhatTheParserSays) {
    Json const schema = Json::parse(json_schema());
    EXPECT_EQ(schema.at("$schema"), "https://json-schema.org/draft/2020-12/schema");
    EXPECT_EQ(schema.at("/else/required"_json_pointer), Json({"version"}));
    EXPECT_EQ(schema.at("/else/properties/version/type"_json_pointer), "string");
    EXPECT_EQ(schema.at("/if/required"_json_pointer), Json({"programs"}));
    EXPECT_EQ(schema.at("/then/properties/count/type"_json_pointer), "null");
    EXPECT_EQ(schema.at("additionalProperties"), false);
    EXPECT_EQ(schema.at("/properties/version/type"_json_pointer), Json({"string", "null"}));
    EXPECT_EQ(schema.at("/properties/version/pattern"_json_pointer), R"(^(?!\.{1,2}$)[^/\u0000]+$)");
    EXPECT_EQ(schema.at("/properties/runServers/type"_json_pointer), Json({"boolean", "null"}));
    EXPECT_EQ(schema.at("/properties/count/maximum"_json_pointer), 65535);
    EXPECT_EQ(schema.at("/properties/arguments/items/$ref"_json_pointer), "#/$defs/Argument");

    Json const& argument = schema.at("/$defs/Argument"_json_pointer);
    EXPECT_EQ(argument.at("/properties/type/enum"_json_pointer),
              Json({"", "Literal", "Concatenate", "Environment", "ProcessNumber", "IPList", nullptr}));
    EXPECT_EQ(argument.at("/properties/multiplier/minimum"_json_pointer), INT64_MIN);
    EXPECT_EQ(argument.at("/properties/multiplier/maximum"_json_pointer), INT64_MAX);
    EXPECT_EQ(argument.at("/properties/width/minimum"_json_pointer), 1);
    EXPECT_EQ(argument.at("/properties/width/maximum"_json_pointer), 20);
    EXPECT_FALSE(argument.contains("required"));
}

TEST(JsonSchema, Programs) {
    Json const schema = Json::parse(json_schema());
    EXPECT_EQ(schema.at("/properties/programs/additionalProperties/$ref"_json_pointer), "#/$defs/Program");
    Json const& program = schema.at("/$defs/Program/properties"_json_pointer);
    std::vector<std::string> keys;
    for (auto const& [key, value] : program.items())
        keys.push_back(key);
    EXPECT_THAT(keys, testing::UnorderedElementsAre(
                          "version", "command", "arguments", "count", "groups", "environment", "environmentFrom",
                          "workingDirectory", "rootDirectory", "user", "group", "supplementaryGroups", "umask",
                          "oneShot", "schedule", "timeout", "onSuccess", "onStop", "environmentFile", "stdin", "tty",
                          "stopSequence", "autoStart", "restart", "backoff", "startLimit", "critical", "successCodes",
                          "permanentFailureCodes", "stopSignal", "stopTimeout", "stopScope", "drainDelay", "preStop",
                          "onConfigurationChange", "reloadSignal", "onFailure", "after", "requires", "bindsTo",
                          "before", "readiness", "pidFile", "startTimeout", "watchdog", "health", "files", "order",
                          "maxUnavailable", "limits", "nice", "oomScoreAdj", "cpuAffinity", "cgroup", "capabilities",
                          "noNewPrivileges", "seccomp", "landlock", "parentDeathSignal", "output", "sockets"));
    EXPECT_LE(keys.size(), 64U);  // the bits of Present
    EXPECT_EQ(program.at("restart").at("enum"), Json({"always", "on-failure", "never", nullptr}));
    EXPECT_EQ(program.at("user").at("type"), Json({"string", "integer", "null"}));
    EXPECT_EQ(program.at("readiness").at("$ref"), "#/$defs/Readiness");

    Json const& readiness = schema.at("/$defs/Readiness"_json_pointer);
    EXPECT_EQ(readiness.at("required"), Json({"type"}));
    EXPECT_EQ(readiness.at("/properties/type/type"_json_pointer), "string");
    EXPECT_EQ(readiness.at("/properties/type/enum"_json_pointer),
              Json({"notify", "fd", "exec", "tcp", "http", "grpc", "log"}));
    EXPECT_EQ(readiness.at("/properties/url/anyOf"_json_pointer),
              Json::parse(R"([{"type": "null"}, {"$ref": "#/$defs/ProgramArgument"}])"));
    Json const& health = schema.at("/$defs/Health"_json_pointer);
    EXPECT_FALSE(health.contains("required"));
    EXPECT_EQ(health.at("/properties/type/enum"_json_pointer), Json({"exec", "tcp", "http", "grpc", nullptr}));

    EXPECT_EQ(program.at("health").at("anyOf"), Json::parse(R"([{"type": "object", "$ref": "#/$defs/Health"},)"
                                                            R"({"type": "array", "minItems": 1, "maxItems": 8},)"
                                                            R"({"type": "null"}])"));
    EXPECT_EQ(program.at("pidFile").at("type"), Json({"string", "object", "null"}));
    EXPECT_FALSE(program.at("pidFile").contains("$ref")) << "null is not an Argument";

    Json const& argument = schema.at("/$defs/ProgramArgument"_json_pointer);
    EXPECT_EQ(argument.at("type"), Json({"string", "object"}));
    EXPECT_EQ(argument.at("/properties/values/items/$ref"_json_pointer), "#/$defs/ProgramArgument");
}

void expect_references_lead_somewhere(Json const& node, Json const& schema) {
    if (node.is_object() && node.contains("$ref")) {
        auto const target = node.at("$ref").get<std::string>();
        EXPECT_TRUE(target.starts_with("#/") && schema.contains(Json::json_pointer(target.substr(1)))) << target;
    }
    for (Json const& child : node)
        if (child.is_structured()) expect_references_lead_somewhere(child, schema);
}

TEST(JsonSchema, ReferencesLeadSomewhere) {
    Json const schema = Json::parse(json_schema());
    expect_references_lead_somewhere(schema, schema);
}

TEST(JsonSchema, ConditionsOfTheTypes) {
    Json const conditions = Json::parse(json_schema()).at("/$defs/Argument/allOf"_json_pointer);
    EXPECT_EQ(conditions, Json::parse(R"([
        {"if": {"properties": {"type": {"const": "Environment"}}, "required": ["type"]},
         "then": {"required": ["source"], "properties": {"source": {"type": "string", "minLength": 1}}}},
        {"if": {"properties": {"type": {"const": "IPList"}}, "required": ["type"]},
         "then": {"required": ["source", "ipFamily"],
                  "properties": {"source": {"type": "string", "minLength": 1}, "ipFamily": {"enum": [4, 6]}}}}])"));
}

/// The parser knows exactly the keys of the schema: none of them is unknown to it, whatever it says of the value.
TEST(JsonSchema, EveryKeyIsKnownToTheParser) {
    Json const schema = Json::parse(json_schema());
    Json document{{"version", "1"}, {"arguments", {Json::object()}}};
    for (auto const& [key, value] : schema.at("properties").items())
        document.emplace(key, nullptr);
    for (auto const& [key, value] : schema.at("/$defs/Argument/properties"_json_pointer).items()) {
        document["arguments"][0][key] = nullptr;
    }
    auto const parsed = parse(document.dump());
    ASSERT_TRUE(parsed) << parsed.error()[0].text();
    EXPECT_TRUE(parsed->warnings.empty());
}

/// Each definition of the schema, and a key of a program that holds such an object.
struct Place {
    std::string definition;
    std::string pointer;
};

class Definitions : public testing::TestWithParam<Place> {};

std::vector<std::string> unknown_keys(Json const& document) {
    std::vector<std::string> out;
    for (json::Problem const& warning : read(document.dump()).warnings)
        if (warning.reason.starts_with("unknown key")) out.push_back(warning.text());
    return out;
}

TEST_P(Definitions, HaveTheKeysThatTheParserKnows) {
    auto const schema = Json::parse(json_schema());
    Json::json_pointer const at("/programs/web" + GetParam().pointer);
    Json document;
    document[at] = Json::object();
    for (auto const& [key, value] : schema.at("$defs").at(GetParam().definition).at("properties").items())
        document[at][key] = nullptr;
    EXPECT_THAT(unknown_keys(document), testing::IsEmpty());
    document[at]["zzz"] = nullptr;
    EXPECT_THAT(unknown_keys(document), testing::ElementsAre(testing::HasSubstr("unknown key \"zzz\"")));
}

std::vector<Place> const places{{"Program", ""},
                                {"ProgramArgument", "/command/0"},
                                {"ProgramArgument", "/environment/A"},
                                {"ProgramArgument", "/readiness/address"},
                                {"ProgramArgument", "/health/url"},
                                {"Schedule", "/schedule"},
                                {"Backoff", "/backoff"},
                                {"StartLimit", "/startLimit"},
                                {"Hook", "/preStop"},
                                {"Hook", "/onFailure"},
                                {"EnvironmentFile", "/environmentFile/0"},
                                {"Stdin", "/stdin"},
                                {"Tty", "/tty"},
                                {"StopStep", "/stopSequence/0"},
                                {"Readiness", "/readiness"},
                                {"Health", "/health"},
                                {"Health", "/health/0"},
                                {"Files", "/files"},
                                {"Limits", "/limits"},
                                {"LimitPair", "/limits/nofile"},
                                {"Cgroup", "/cgroup"},
                                {"Capabilities", "/capabilities"},
                                {"Seccomp", "/seccomp"},
                                {"Landlock", "/landlock"},
                                {"Output", "/output"},
                                {"Syslog", "/output/syslog"},
                                {"Socket", "/sockets/0"}};

INSTANTIATE_TEST_SUITE_P(JsonSchema, Definitions, testing::ValuesIn(places));

TEST(JsonSchema, EveryDefinitionHasAPlace) {
    auto const schema = Json::parse(json_schema());
    for (auto const& [name, value] : schema.at("$defs").items()) {
        if (name == "Argument") continue;  // that of the other form
        EXPECT_THAT(places, testing::Contains(testing::Field(&Place::definition, name)));
    }
}

TEST(JsonSchema, EveryKeyAndTypeIsDescribed) {
    Json const schema = Json::parse(json_schema());
    std::string const reference = reference_markdown();
    std::vector<Json> objects{schema};
    for (auto const& [name, definition] : schema.at("$defs").items())
        objects.push_back(definition);
    for (Json const& object : objects) {
        for (auto const& [key, value] : object.at("properties").items()) {
            auto const description = value.at("description").get<std::string>();
            EXPECT_TRUE(description.ends_with('.')) << key;
            EXPECT_NE(reference.find("| `" + key + "` | "), std::string::npos) << key;
            EXPECT_NE(reference.find(description), std::string::npos) << key;
        }
    }
    EXPECT_NE(reference.find("| `source` | string | required for Environment, IPList | Environment, IPList | "),
              std::string::npos);
    EXPECT_NE(reference.find("| `version` | string | required without `programs` | "), std::string::npos);
    EXPECT_NE(reference.find("| `type` | string | optional | all types | "), std::string::npos);
    EXPECT_NE(reference.find("| `IPList` | "), std::string::npos);
    for (auto const* row : {"| `command` | array of [Argument](#argument) | optional | ",
                            "| `programs` | object of [Program](#program) | optional | ",
                            "| `address` | string or object [Argument](#argument) | optional | ",
                            "| `sockets` | array of [Socket](#socket) | optional | ", "\n## Socket\n",
                            "| `restart` | string | optional | One of `always`, `on-failure`, `never`. "}) {
        EXPECT_NE(reference.find(row), std::string::npos) << row;
    }
}

}  // namespace
}  // namespace triton::config
