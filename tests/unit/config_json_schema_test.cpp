#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "config/json_schema.h"
#include "config/process_configuration.h"

namespace triton::config {
namespace {

using Json = nlohmann::json;

TEST(JsonSchema, SaysWhatTheParserSays) {
    Json const schema = Json::parse(json_schema());
    EXPECT_EQ(schema.at("$schema"), "https://json-schema.org/draft/2020-12/schema");
    EXPECT_EQ(schema.at("required"), Json({"version"}));
    EXPECT_EQ(schema.at("additionalProperties"), false);
    EXPECT_EQ(schema.at("/properties/version/type"_json_pointer), "string");
    EXPECT_EQ(schema.at("/properties/version/pattern"_json_pointer), R"(^(?!\.{1,2}$)[^/\u0000]+$)");
    EXPECT_EQ(schema.at("/properties/runServers/type"_json_pointer), Json({"boolean", "null"}));
    EXPECT_EQ(schema.at("/properties/count/maximum"_json_pointer), 65535);
    EXPECT_EQ(schema.at("/properties/arguments/items/$ref"_json_pointer), "#/$defs/Argument");

    Json const& argument = schema.at("/$defs/Argument"_json_pointer);
    EXPECT_EQ(argument.at("/properties/type/enum"_json_pointer),
              Json({"", "Literal", "Concatenate", "Environment", "ProcessNumber", "IPList", nullptr}));
    EXPECT_EQ(argument.at("/properties/multiplier/minimum"_json_pointer), INT64_MIN);
    EXPECT_EQ(argument.at("/properties/multiplier/maximum"_json_pointer), INT64_MAX);
    EXPECT_FALSE(argument.contains("required"));
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

TEST(JsonSchema, EveryKeyAndTypeIsDescribed) {
    Json const schema = Json::parse(json_schema());
    std::string const reference = reference_markdown();
    for (auto const* pointer : {"/properties", "/$defs/Argument/properties"}) {
        for (auto const& [key, value] : schema.at(Json::json_pointer(pointer)).items()) {
            auto const description = value.at("description").get<std::string>();
            EXPECT_TRUE(description.ends_with('.')) << key;
            EXPECT_NE(reference.find("| `" + key + "` | "), std::string::npos) << key;
            EXPECT_NE(reference.find(description), std::string::npos) << key;
        }
    }
    EXPECT_NE(reference.find("| `source` | string | required for Environment, IPList | Environment, IPList | "),
              std::string::npos);
    EXPECT_NE(reference.find("| `version` | string | required | "), std::string::npos);
    EXPECT_NE(reference.find("| `type` | string | optional | all types | "), std::string::npos);
    EXPECT_NE(reference.find("| `IPList` | "), std::string::npos);
}

}  // namespace
}  // namespace triton::config
