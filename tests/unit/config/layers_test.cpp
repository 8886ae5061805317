#include "config/layers.h"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/process_configuration.h"
#include "lib/json/writer.h"
#include "tests/unit/config/problem_texts.h"

namespace triton::config {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// What two documents say together.
std::string merge(std::string first, std::string second) {
    std::vector<Layer> const layers{{.file = {}, .text = std::move(first), .is_including = true},
                                    {.file = "b", .text = std::move(second)}};
    json::Problems problems;
    auto const node = Layers(layers, {}, problems).merged();
    EXPECT_TRUE(problems.empty());
    return node ? json::Writer().value(*node).text() : "nothing";
}

struct MergeRow {
    std::string first;
    std::string second;
    std::string merged;
};

// The examples of RFC 7396, appendix A, whose documents are objects; and what an include list becomes.
TEST(Layers, MergeAsAMergePatchDoes) {
    MergeRow const rows[] = {
        {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
        {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
        {R"({"a":"b"})", R"({"a":null})", R"({})"},
        {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
        {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
        {R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
        {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
        {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
        {R"({"e":1})", R"({"a":1})", R"({"e":1,"a":1})"},
        {R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
        {R"({"a":{"b":1}})", R"({"a":2})", R"({"a":2})"},
        {R"({"a":{"b":null,"c":1}})", R"({})", R"({"a":{"c":1}})"},
        {R"({"a":1})", R"({"a":null,"b":1})", R"({"b":1})"},
        {R"({"include":["x"],"a":1})", R"({"a":12345678901234567890})", R"({"a":12345678901234567890})"},
    };
    for (MergeRow const& row : rows)
        EXPECT_EQ(merge(row.first, row.second), row.merged) << row.first << " " << row.second;
}

TEST(Layers, AKeyThatIsTakenAwayMayComeBack) {
    std::vector<Layer> const layers{{.file = {}, .text = R"({"a":{"b":1}})", .is_including = true},
                                    {.file = "1", .text = R"({"a":null})"},
                                    {.file = "2", .text = R"({"a":{"c":2}})"}};
    json::Problems problems;
    EXPECT_EQ(json::Writer().value(*Layers(layers, {}, problems).merged()).text(), R"({"a":{"c":2}})");
}

TEST(Layers, WhatADocumentIncludes) {
    EXPECT_THAT(includes_of(R"({"include":["a.json","conf.d/*.json"]})"), ElementsAre("a.json", "conf.d/*.json"));
    EXPECT_THAT(includes_of(R"({"programs":{"include":["a"]}})"), IsEmpty());
    for (auto const* wrong : {R"({"include":"a"})", R"({"include":[1]})", R"({"include":[""]})",
                              R"({"include":["a\u0000"]})", R"(["include"])", R"({"include":["a"])", ""})
        EXPECT_THAT(includes_of(wrong), IsEmpty()) << wrong;
    std::string const large = R"({"include":["a"],"x":")" + std::string(most_including_bytes, ' ') + "\"}";
    EXPECT_THAT(includes_of(large), IsEmpty());
}

TEST(Layers, EachProblemNamesItsFile) {
    std::vector<Layer> const layers{
        {.file = {},
         .text = R"({"include":["*"],"programs":{"a":{"command":["a"],"nice":99},"b.c":{"command":["b"],"nice":99}}})",
         .is_including = true},
        {.file = "1.json", .text = R"({"programs":{"a":{"restart":"x"},"new":{},"b.c":{"nice":98}}})"},
        {.file = "2.json",
         .text = R"({"programs":{"a":{"restart":"y","output":{"form":1}},"b.c":{"command":[["x"]]}}})"}};
    Draft const draft = read(layers);
    EXPECT_THAT(
        texts(draft.problems),
        testing::UnorderedElementsAre(
            "programs.a.nice: 99 is not within -20 to 19",
            R"(2.json: programs.a.restart: "y" is not one of always, on-failure, never)",
            R"(1.json: programs["b.c"].nice: 98 is not within -20 to 19)",
            R"(2.json: programs["b.c"].command[0]: expected a string or an object, for example {"type": "Environment", "source": "NAME"}, found array)",
            "1.json: programs.new.command: required when there is no version"));
    EXPECT_THAT(texts(draft.warnings), ElementsAre(testing::StartsWith("2.json: programs.a.output: unknown key")));
}

/// The object may have begun in another file.
TEST(Layers, AnUnknownKeyNamesItsFile) {
    std::vector<Layer> const layers{
        {.file = {},
         .text = R"({"include":["*"],"mine":1,"programs":{"a":{"command":["a"],"odd one":1}}})",
         .is_including = true},
        {.file = "1.json", .text = R"({"their":1,"programs":{"a":{"env":1,"odd.two":2}}})"}};
    EXPECT_THAT(texts(read(layers).warnings),
                testing::UnorderedElementsAre(testing::StartsWith(R"(unknown key "mine"; the keys are version, )"),
                                              testing::StartsWith(R"(1.json: unknown key "their"; the keys are )"),
                                              R"(programs.a: unknown key "odd one")",
                                              R"(1.json: programs.a: unknown key "odd.two")",
                                              testing::StartsWith(R"(1.json: programs.a: unknown key "env")")));
}

TEST(Layers, ASyntaxErrorNamesFileAndLine) {
    std::vector<Layer> const layers{{.file = {}, .text = R"({"include":["*"]})", .is_including = true},
                                    {.file = "a", .text = "{\n\"a\":}"},
                                    {.file = "b", .text = "[]"}};
    EXPECT_THAT(texts(read(layers).problems),
                ElementsAre(testing::StartsWith("a: line 2, column "), "b: expected an object, found array"));
}

TEST(Layers, OnlyTheFirstIncludes) {
    std::vector<Layer> const layers{{.file = {}, .text = R"({"include":["*"],"programs":{}})", .is_including = true},
                                    {.file = "a", .text = R"({"include":["b"]})"}};
    EXPECT_THAT(texts(read(layers).problems),
                ElementsAre(testing::StartsWith("a: include: only the configuration file")));
    EXPECT_THAT(texts(read(R"({"include":["b"],"programs":{}})").problems),
                ElementsAre(testing::StartsWith("include: only the configuration file")));
    EXPECT_THAT(texts(read(R"({"include":"b","programs":{}})").problems),
                ElementsAre(R"(include: expected an array, for example ["b"], found string)"));
}

/// What was merged travels to a successor as one document.
TEST(Layers, TogetherTheySayNoMoreThanOneDocumentMay) {
    Limits limits;
    limits.document.document_bytes = 100;
    std::vector<Layer> layers{{.file = {}, .text = R"({"include":["*"],"programs":{}})", .is_including = true},
                              {.file = "a", .text = "{\"runServers\":true,\"" + std::string(60, 'a') + "\":1}"}};
    EXPECT_THAT(read(layers, limits).problems, IsEmpty());
    layers.push_back({.file = "b", .text = "{\"" + std::string(60, 'b') + "\":1}"});
    EXPECT_THAT(texts(read(layers, limits).problems),
                ElementsAre("its files together are larger than one document may be"));
    limits = {};
    limits.document.values = 6;
    EXPECT_THAT(read(layers, limits).problems, IsEmpty());
    layers.push_back({.file = "c", .text = R"({"c":1,"d":1})"});
    EXPECT_THAT(texts(read(layers, limits).problems),
                ElementsAre("its files together are larger than one document may be"));
}

TEST(Layers, AMegabyteOfKeysTwiceTakesNoSquare) {
    std::string first = "{\"include\":[\"x\"],\"programs\":{}";
    std::string second = "{\"programs\":{}";
    for (int i = 0; i < 40000; ++i)
        second += ",\"k" + std::to_string(i) + "\":1";
    std::vector<Layer> const layers{{.file = {}, .text = first + "}", .is_including = true},
                                    {.file = "a", .text = second + "}"},
                                    {.file = "b", .text = second + "}"}};
    auto const began = std::chrono::steady_clock::now();
    EXPECT_TRUE(read(layers).problems.empty());
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));  // a square takes minutes
}

}  // namespace
}  // namespace triton::config
