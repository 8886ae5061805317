// The table engine with a document that is not ours: a volume, as a host program would describe it.

#include "lib/json/table.h"

#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lib/json/schema.h"
#include "lib/json/values.h"

namespace host {

using triton::json::as;
using triton::json::Need;
namespace json = triton::json;

enum class Format { raw, qcow2 };
constexpr std::array<std::string_view, 2> formats{"raw", "qcow2"};

struct Quota {
    std::uint32_t percent = 100;
    bool is_hard = true;
};

struct Volume {
    std::string name;
    std::uint64_t size = 0;
    Format format = Format::raw;
    double share = 1;
    std::uint32_t mode = 0700;
    triton::milliseconds timeout{};
    std::vector<std::string> tags;
    std::optional<Quota> quota;
    std::string pool;
};

/// Machines of a pool need not name it; each volume may be no larger than what is left.
struct Reading : json::Reading {
    Reading() : json::Reading(3) {}
    bool has_pool = false;
    std::uint64_t room = 1 << 30;
};

constexpr json::Shape quota_shape = json::object_shape("Quota");
constexpr json::NeededWhen<Reading> without_pool{[](Reading const& reading) { return !reading.has_pool; },
                                                 "required without a pool"};

std::span<json::Field<Quota, Reading> const> table(json::TableOf<Quota, Reading>) {
    static constexpr std::array<json::Field<Quota, Reading>, 2> rows{{
        {.name = "percent",
         .need = Need::required,
         .value = as<&Quota::percent, json::Integer<std::uint32_t, 1, 100>>,
         .description = "How much."},
        {.name = "hard", .value = as<&Quota::is_hard, json::Boolean>, .description = "Whether it is enforced."},
    }};
    return rows;
}

void parse_size(json::Node const& node, json::Where const& at, Volume& volume, Reading& reading) {
    auto const size = json::Size::read(node, at, reading);
    if (!size) return;
    if (*size > reading.room) reading.problems.add(at, "is more than there is");
    volume.size = *size;
}

void check_volume(Volume const& volume, json::Present<Volume, Reading> present, json::Where const& at,
                  Reading& reading) {
    if (present.has("mode") && volume.format == Format::qcow2)
        reading.warnings.add(json::Where{&at, "mode"}, "has no effect for qcow2");
    if (present.is_faulty("size")) reading.warnings.add(at, "has no size");
}

std::span<json::Field<Volume, Reading> const> table(json::TableOf<Volume, Reading>) {
    static constexpr std::array<json::Field<Volume, Reading>, 9> rows{{
        {.name = "name", .need = Need::required, .value = as<&Volume::name, json::Text>, .description = "Its name."},
        {.name = "size", .value = {&json::size_text, parse_size}, .description = "Its size."},
        {.name = "format",
         .value = as<&Volume::format, json::Choice<Format, formats>>,
         .description = "How it is kept."},
        {.name = "share", .value = as<&Volume::share, json::Number<0, 4>>, .description = "Of the bandwidth."},
        {.name = "mode", .value = as<&Volume::mode, json::Octal<0777>>, .description = "Who may open it."},
        {.name = "timeout", .value = as<&Volume::timeout, json::DurationText>, .description = "When to give up."},
        {.name = "tags", .value = as<&Volume::tags, json::List<json::Text>>, .description = "Free texts."},
        {.name = "quota",
         .value = as<&Volume::quota, json::Record<Quota, quota_shape>>,
         .description = "What it may hold."},
        {.name = "pool",
         .needed_when = without_pool,
         .value = as<&Volume::pool, json::Path>,
         .description = "Where it lies."},
    }};
    return rows;
}

}  // namespace host

namespace triton::json {
namespace {

using host::Volume;

std::optional<Volume> read_volume(std::string_view text, host::Reading& reading) {
    auto const node = read_json(text, Limits{}, reading.problems);
    return node ? read_object<Volume, host::check_volume>(*node, Where{}, reading) : std::nullopt;
}

std::vector<std::string> texts(ProblemList list) {
    std::vector<std::string> all;
    for (Problem const& problem : std::move(list).take())
        all.push_back(problem.text());
    return all;
}

TEST(JsonTable, ReadsAnObjectOfSomebodyElse) {
    host::Reading reading;
    auto const volume = read_volume(
        R"({"name":"data","size":"64Mi","format":"qcow2","share":0.5,"timeout":"2s","tags":["a","b"],
            "quota":{"percent":80},"pool":"/tank"})",
        reading);
    ASSERT_TRUE(volume);
    EXPECT_TRUE(reading.problems.empty() && reading.warnings.empty());
    EXPECT_EQ(volume->name, "data");
    EXPECT_EQ(volume->size, 64U << 20);
    EXPECT_EQ(volume->format, host::Format::qcow2);
    EXPECT_EQ(volume->share, 0.5);
    EXPECT_EQ(volume->timeout, std::chrono::seconds(2));
    EXPECT_EQ(volume->tags, (std::vector<std::string>{"a", "b"}));
    ASSERT_TRUE(volume->quota);
    EXPECT_EQ(volume->quota->percent, 80U);
    EXPECT_TRUE(volume->quota->is_hard);
}

TEST(JsonTable, TellsPlacesAndStopsAtTheLimit) {
    host::Reading reading;
    (void)read_volume(R"({"size":0,"format":"qcow3","quota":{"percent":101},"tags":["",3],"pool":"tank"})", reading);
    EXPECT_THAT(
        texts(reading.problems),
        testing::ElementsAre("name: required key is missing", "size: must be more than 0",
                             "format: \"qcow3\" is not one of raw, qcow2; did you mean \"qcow2\"?", "and 4 more"));
}

TEST(JsonTable, TellsWhatIsInsideAnObject) {
    host::Reading reading;
    (void)read_volume(R"({"name":"x","pool":"/tank","quota":{"percent":101},"tags":["ok",3]})", reading);
    EXPECT_THAT(texts(reading.problems), testing::ElementsAre("tags[1]: expected a string, found number",
                                                              "quota.percent: 101 is not within 1 to 100"));
}

TEST(JsonTable, WarnsOfUnknownKeysAndOfWhatHasNoEffect) {
    host::Reading reading;
    (void)read_volume(R"({"name":"x","pool":"/tank","sise":1,"quota":{"percent":1,"soft":true}})", reading);
    (void)read_volume(R"({"name":"x","pool":"/tank","format":"qcow2","mode":"0600"})", reading);
    EXPECT_TRUE(reading.problems.empty());
    EXPECT_THAT(texts(reading.warnings),
                testing::ElementsAre("quota: unknown key \"soft\"; the keys are percent, hard",
                                     "unknown key \"sise\"; did you mean \"size\"?", "mode: has no effect for qcow2"));
}

TEST(JsonTable, AsksTheContext) {
    host::Reading reading;
    reading.room = 100;
    (void)read_volume(R"({"name":"x","size":101})", reading);
    EXPECT_THAT(texts(reading.problems),
                testing::ElementsAre("size: is more than there is", "pool: required key is missing"));
    EXPECT_THAT(texts(reading.warnings), testing::ElementsAre("has no size"));
    host::Reading pooled;
    pooled.has_pool = true;
    (void)read_volume(R"({"name":"x","pool":null})", pooled);
    EXPECT_TRUE(pooled.problems.empty());
}

TEST(JsonTable, MakesASchema) {
    Writer out;
    out.open('{');
    write_properties(out, described_keys<Volume, host::Reading>());
    out.close('}');
    auto const schema = nlohmann::json::parse(out.text());
    EXPECT_EQ(schema.at("required"), nlohmann::json({"name"}));
    EXPECT_EQ(schema.at("additionalProperties"), false);
    auto const& keys = schema.at("properties");
    EXPECT_EQ(keys.at("name"),
              nlohmann::json::parse(
                  R"({"type":"string","minLength":1,"pattern":"^[^\\u0000]*$","description":"Its name."})"));
    EXPECT_EQ(keys.at("format").at("enum"), nlohmann::json({"raw", "qcow2", nullptr}));
    EXPECT_EQ(keys.at("share").at("maximum"), 4);
    EXPECT_EQ(keys.at("tags").at("items").at("type"), "string");
    EXPECT_EQ(keys.at("quota").at("$ref"), "#/$defs/Quota");
    Writer quota;
    quota.open('{');
    write_properties(quota, described_keys<host::Quota, host::Reading>());
    EXPECT_EQ(quota.close('}').text(),
              R"({"additionalProperties":false,"properties":{)"
              R"("percent":{"type":"integer","minimum":1,"maximum":100,"description":"How much."},)"
              R"("hard":{"type":["boolean","null"],"description":"Whether it is enforced."}},"required":["percent"]})");
}

TEST(JsonTable, MakesAReferencePage) {
    std::string page;
    append_section(page, "Volume", described_keys<Volume, host::Reading>(), "What holds data.");
    EXPECT_THAT(page,
                testing::StartsWith("\n## Volume\n\nWhat holds data.\n\n| Key | JSON type | | Meaning |\n"
                                    "|---|---|---|---|\n| `name` | string | required | Its name. |\n"
                                    "| `size` | integer or string | optional | Its size. |\n"
                                    "| `format` | string | optional | One of `raw`, `qcow2`. How it is kept. |\n"));
    EXPECT_THAT(page, testing::HasSubstr("| `quota` | object [Quota](#quota) | optional | What it may hold. |\n"
                                         "| `pool` | string | required without a pool | Where it lies. |\n"));
}

}  // namespace
}  // namespace triton::json
