#include "config/process_configuration.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/config/problem_texts.h"

namespace triton::config {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::string_literals;

std::vector<std::string> errors_of(std::string_view text, Limits const& limits = {}) {
    auto const parsed = parse(text, limits);
    return parsed ? std::vector<std::string>{} : texts(parsed.error());
}

std::string with_argument(std::string const& argument) { return R"({"version":"1","arguments":[)" + argument + "]}"; }

struct Rejected {
    std::string text;
    std::vector<std::string> errors;
};

void PrintTo(Rejected const& row, std::ostream* out) { *out << row.text.substr(0, 200); }

class Rejects : public testing::TestWithParam<Rejected> {};

TEST_P(Rejects, WithExactlyTheseErrors) { EXPECT_EQ(errors_of(GetParam().text), GetParam().errors); }

INSTANTIATE_TEST_SUITE_P(
    Documents, Rejects,
    testing::Values(
        Rejected{"", {"is empty"}}, Rejected{" \n\t", {"is empty"}},
        Rejected{"\xef\xbb\xbf{\"version\":\"1\"}",
                 {"starts with a byte order mark; save the file as UTF-8 without one"}},
        Rejected{"\xff\xfe{", {"is UTF-16; save the file as UTF-8"}},
        Rejected{"null", {"expected an object, found null"}}, Rejected{"[]", {"expected an object, found array"}},
        Rejected{"7", {"expected an object, found number"}}, Rejected{"1.5", {"expected an object, found number"}},
        Rejected{"{}", {"version: required key is missing"}},
        Rejected{R"({"version":"1"} x)",
                 {"line 1, column 17: syntax error while parsing value: invalid literal; expected end of input"}},
        Rejected{"{\"version\":\"1\"}\n{}",
                 {"line 2, column 1: syntax error while parsing value: unexpected '{'; expected end of input"}},
        Rejected{"{\"version\":\"1\"}\n\0{"s, {"line 2, column 1: a NUL byte, which JSON does not allow"}},
        Rejected{"{\"version\":\"\0\"}"s, {"line 1, column 13: a NUL byte, which JSON does not allow"}},
        Rejected{"{\n  \"version\": \"1\",\n}",
                 {"line 3, column 1: syntax error while parsing object key: unexpected '}'; expected string literal"}},
        Rejected{R"({"version": "1")",
                 {"line 1, column 16: syntax error while parsing object: unexpected end of input; expected '}'"}},
        Rejected{R"({"version": "1)",
                 {"line 1, column 15: syntax error while parsing value: invalid string: missing closing quote"}},
        Rejected{R"({"version" "1"})",
                 {"line 1, column 14: syntax error while parsing object separator: unexpected string literal; expected "
                  "':'"}},
        Rejected{"{\"version\": \"\xc3\xa9\xff\"}",
                 {"line 1, column 15: syntax error while parsing value: invalid string: ill-formed UTF-8 byte"}},
        Rejected{"{\"version\": \"\xed\xa0\x80\"}",
                 {"line 1, column 15: syntax error while parsing value: invalid string: ill-formed UTF-8 byte"}},
        Rejected{R"({"version": "\ud800"})",
                 {"line 1, column 20: syntax error while parsing value: invalid string: surrogate U+D800..U+DBFF must "
                  "be followed by U+DC00..U+DFFF"}},
        Rejected{R"({"version": "1", "count": 01})",
                 {"line 1, column 28: syntax error while parsing object: unexpected number literal; expected '}'"}},
        Rejected{R"({"version": "1", "count": 1e999})", {"line 1, column 31: the number is too large"}}));

INSTANTIATE_TEST_SUITE_P(
    Keys, Rejects,
    testing::Values(Rejected{R"({"version":"1","version":"1","version":"2"})", {"version: duplicate key"}},
                    Rejected{R"({"version":"1","x y":{"a":1,"a":2}})", {R"(["x y"].a: duplicate key)"}},
                    Rejected{with_argument(R"({},{"type":"Concatenate","values":[{},{"value":"a","value":"b"}]})"),
                             {"arguments[1].values[1].value: duplicate key"}},
                    Rejected{R"({"version":"1\u0000"})", {"version: contains a NUL byte, which no argument can carry"}},
                    Rejected{with_argument(R"({"value":"\u0000"},{"value":"a","\u0000":1})"),
                             {"arguments[0].value: contains a NUL byte, which no argument can carry",
                              R"(arguments[1]["\u0000"]: contains a NUL byte, which no argument can carry)"}},
                    Rejected{R"({"version":"1","other":["a\u0000"]})",
                             {"other[0]: contains a NUL byte, which no argument can carry"}},
                    Rejected{R"({"Version":"1"})", {"version: required key is missing"}}));

INSTANTIATE_TEST_SUITE_P(
    Fields, Rejects,
    testing::Values(
        Rejected{R"({"version":null})", {"version: expected a string, found null"}},
        Rejected{R"({"version":7.3})", {"version: expected a string, found number"}},
        Rejected{R"({"version":""})", {"version: must not be empty"}},
        Rejected{R"({"version":"../../bin"})", {"version: must not contain a slash: it becomes part of a path"}},
        Rejected{R"({"version":"."})", {R"(version: must not be ".": it becomes part of a path)"}},
        Rejected{R"({"version":".."})", {R"(version: must not be "..": it becomes part of a path)"}},
        Rejected{R"({"version":")" + std::string(256, '7') + "\"}", {"version: is longer than 255 bytes"}},
        Rejected{R"({"version":"1","runServers":"true"})", {"runServers: expected a boolean, found string"}},
        Rejected{R"({"version":"1","runServers":0})", {"runServers: expected a boolean, found number"}},
        Rejected{R"({"version":"1","count":-1})", {"count: -1 is not within 0 to 65535"}},
        Rejected{R"({"version":"1","count":65536})", {"count: 65536 is not within 0 to 65535"}},
        Rejected{R"({"version":"1","count":2.0})", {"count: expected an integer, found 2.0"}},
        Rejected{R"({"version":"1","count":"2"})", {"count: expected an integer, found string"}},
        Rejected{R"({"version":"1","arguments":{}})", {"arguments: expected an array, found object"}},
        Rejected{with_argument(R"("--class")"),
                 {"arguments[0]: expected an object, for example {\"type\": \"Environment\", \"source\": \"NAME\"}, "
                  "found string"}},
        Rejected{with_argument("null"),
                 {"arguments[0]: expected an object, for example {\"type\": \"Environment\", \"source\": \"NAME\"}, "
                  "found null"}},
        Rejected{
            with_argument(R"({"type":"Foo"})"),
            {R"(arguments[0].type: unknown type "Foo" (known: Literal, Concatenate, Environment, ProcessNumber, IPList))"}},
        Rejected{with_argument(R"({"type":4})"), {"arguments[0].type: expected a string, found number"}},
        Rejected{with_argument(R"({"type":"Concatenante","values":[]})"),
                 {R"(arguments[0].type: unknown type "Concatenante"; did you mean "Concatenate"?)"}},
        Rejected{with_argument(R"({"type":"literal"})"),
                 {R"(arguments[0].type: unknown type "literal"; did you mean "Literal"?)"}},
        Rejected{with_argument(R"({"type":"Number"})"),
                 {R"(arguments[0].type: unknown type "Number"; did you mean "ProcessNumber"?)"}},
        Rejected{with_argument(R"({"value":1})"), {"arguments[0].value: expected a string, found number"}},
        Rejected{with_argument(R"({"type":"Concatenate","values":"a"})"),
                 {R"(arguments[0].values: expected an array, for example ["a"], found string)"}},
        Rejected{with_argument(R"({"type":"Environment"})"), {"arguments[0].source: required for type Environment"}},
        Rejected{with_argument(R"({"type":"Environment","source":null})"),
                 {"arguments[0].source: required for type Environment"}},
        Rejected{with_argument(R"({"type":"Environment","source":""})"), {"arguments[0].source: must not be empty"}},
        Rejected{with_argument(R"({"type":"IPList"})"),
                 {"arguments[0].source: required for type IPList", "arguments[0].ipFamily: required for type IPList"}},
        Rejected{with_argument(R"({"type":"IPList","source":"A","ipFamily":5})"),
                 {"arguments[0].ipFamily: unsupported IP family 5"}},
        Rejected{with_argument(R"({"type":"IPList","source":"A","ipFamily":"4"})"),
                 {"arguments[0].ipFamily: expected an integer, found string"}},
        Rejected{with_argument(R"({"type":"ProcessNumber","multiplier":1.5})"),
                 {"arguments[0].multiplier: expected an integer, found 1.5"}},
        Rejected{with_argument(R"({"type":"ProcessNumber","multiplier":1e3})"),
                 {"arguments[0].multiplier: expected an integer, found 1e3"}},
        Rejected{with_argument(R"({"type":"ProcessNumber","width":0})"),
                 {"arguments[0].width: 0 is not within 1 to 20"}},
        Rejected{with_argument(R"({"type":"ProcessNumber","width":21})"),
                 {"arguments[0].width: 21 is not within 1 to 20"}},
        Rejected{with_argument(R"({"type":"ProcessNumber","width":"2"})"),
                 {"arguments[0].width: expected an integer, found string"}},
        Rejected{with_argument(R"({"type":"ProcessNumber","offset":9223372036854775808})"),
                 {"arguments[0].offset: 9223372036854775808 is beyond a 64-bit signed integer"}},
        Rejected{with_argument(R"({"type":"ProcessNumber","offset":-9223372036854775809})"),
                 {"arguments[0].offset: -9223372036854775809 is beyond a 64-bit signed integer"}},
        Rejected{with_argument(R"({"type":"ProcessNumber","offset":)" + std::string(300, '1') + "}"),
                 {"arguments[0].offset: " + std::string(40, '1') + "... is beyond a 64-bit signed integer"}}));

TEST(ParseConfiguration, ReportsEverythingAtOnce) {
    EXPECT_THAT(
        errors_of(R"({"count": "x", "arguments": [
                    {"value": "ok"}, {"type": "Foo"}, 3,
                    {"type": "Concatenate", "values": [{}, {"type": "Bar"}, {"type": "Environment"}]}],
                    "runServers": 1, "runServers": 2})"),
        ElementsAre(
            "runServers: duplicate key", "version: required key is missing",
            "runServers: expected a boolean, found number", "count: expected an integer, found string",
            R"(arguments[1].type: unknown type "Foo" (known: Literal, Concatenate, Environment, ProcessNumber, IPList))",
            "arguments[2]: expected an object, for example {\"type\": \"Environment\", \"source\": \"NAME\"}, found "
            "number",
            R"(arguments[3].values[1].type: unknown type "Bar" (known: Literal, Concatenate, Environment, ProcessNumber, IPList))",
            "arguments[3].values[2].source: required for type Environment"));
}

TEST(ParseConfiguration, SyntaxErrorComesAfterWhatWasFoundBefore) {
    EXPECT_THAT(errors_of("{\"a\":{\"b\":1,\"b\":2},}"),
                ElementsAre("a.b: duplicate key",
                            "line 1, column 20: syntax error while parsing object key: unexpected '}'; expected string "
                            "literal"));
}

TEST(ParseConfiguration, MillionLevelsAreRefusedNotFollowed) {
    auto const arrays = errors_of(std::string(1'000'000, '['));
    ASSERT_EQ(arrays.size(), 1U);
    EXPECT_TRUE(arrays[0].ends_with("[0]: nested deeper than 64 levels")) << arrays[0];
    std::string objects;
    while (objects.size() < 1'000'000)
        objects += "{\"a\":";
    auto const errors = errors_of(objects);
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_TRUE(errors[0].ends_with(".a.a: nested deeper than 64 levels")) << errors[0];
}

std::string nested_concatenates(int levels) {
    std::string text = R"({"value":"x"})";
    for (int i = 0; i < levels; ++i)
        text = R"({"type":"Concatenate","values":[)" + text + "]}";
    return with_argument(text);
}

TEST(ParseConfiguration, DepthLimitCountsContainers) {
    EXPECT_THAT(errors_of(nested_concatenates(30)), IsEmpty());  // 1 + 2 * 31 containers
    auto const errors = errors_of(nested_concatenates(31));
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_TRUE(errors[0].ends_with("values[0]: nested deeper than 64 levels")) << errors[0];
}

TEST(ParseConfiguration, SizeLimits) {
    EXPECT_THAT(errors_of(std::string((1 << 20) + 1, ' ')), ElementsAre("is larger than 1048576 bytes"));
    std::string exact = R"({"version":"1"})";
    exact.resize(1 << 20, ' ');
    EXPECT_THAT(errors_of(exact), IsEmpty());
    EXPECT_THAT(errors_of(with_argument("{},{}"), {.document = {.values = 5}}), IsEmpty());
    EXPECT_THAT(errors_of(with_argument("{},{}"), {.document = {.values = 4}}), ElementsAre("has more than 4 values"));
    EXPECT_THAT(errors_of(with_argument(R"({"type":"Concatenate","values":[{},{}]},{})"), {.arguments = 4}), IsEmpty());
    EXPECT_THAT(errors_of(with_argument(R"({"type":"Concatenate","values":[{},{}]},{},{})"), {.arguments = 2}),
                ElementsAre("arguments[0].values[1]: more than 2 arguments in all"));
}

TEST(ParseConfiguration, DefaultLimitOfArguments) {
    std::string arguments = "{}";
    for (int i = 1; i < 65536; ++i)
        arguments += ",{}";
    EXPECT_THAT(errors_of(with_argument(arguments)), IsEmpty());
    EXPECT_THAT(errors_of(with_argument(arguments + ",{}")),
                ElementsAre("arguments[65536]: more than 65536 arguments in all"));
}

TEST(ParseConfiguration, ManyProblemsAreCounted) {
    std::string arguments = "1";
    for (int i = 1; i < 250; ++i)
        arguments += ",1";
    auto const errors = errors_of(with_argument(arguments));
    ASSERT_EQ(errors.size(), 101U);
    EXPECT_EQ(errors[99],
              "arguments[99]: expected an object, for example {\"type\": \"Environment\", \"source\": \"NAME\"}, found "
              "number");
    EXPECT_EQ(errors[100], "and 150 more");
}

TEST(ParseConfiguration, ManyDifferentKeysTakeNoQuadraticTime) {
    std::string text = R"({"version":"1")";
    for (int i = 0; text.size() < 1'000'000; ++i)
        text += ",\"" + std::to_string(i) + "\":0";
    auto const parsed = parse(text + "}");
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->warnings.size(), 101U);
}

TEST(ParseConfiguration, ReadsEverything) {
    auto const parsed = parse(R"({"version":"7.3.1","runServers":false,"count":65535,"arguments":[
        {}, {"type":"","value":"a"}, {"type":"Literal","value":"\u00e9\ud83d\ude00"}, {"type":null,"value":null},
        {"type":"Concatenate","values":[{"type":"Concatenate"},{"value":"b"}]},
        {"type":"Environment","source":"A"},
        {"type":"ProcessNumber","multiplier":0,"offset":-9223372036854775808},
        {"offset":9223372036854775807,"multiplier":-3,"type":"ProcessNumber"},
        {"type":"IPList","source":"B","ipFamily":6}]})");
    ASSERT_TRUE(parsed);
    EXPECT_THAT(parsed->warnings, IsEmpty());
    using enum ArgumentType;
    ProcessConfiguration expected{"7.3.1", false, 65535, {}};
    expected.arguments = {{},
                          {.value = "a"},
                          {.value = "\u00e9\U0001f600"},
                          {},
                          {.type = concatenate, .values = {{.type = concatenate}, {.value = "b"}}},
                          {.type = environment, .source = "A"},
                          {.type = process_number, .offset = INT64_MIN},
                          {.type = process_number, .multiplier = -3, .offset = INT64_MAX},
                          {.type = ip_list, .ip_family = IpFamily::v6, .source = "B"}};
    EXPECT_TRUE(parsed->configuration == expected);
}

TEST(ParseConfiguration, Defaults) {
    for (auto const* text :
         {R"({"version":"1"})", R"({"version":"1","runServers":null,"count":null,"arguments":null})"}) {
        auto const parsed = parse(text);
        ASSERT_TRUE(parsed) << text;
        EXPECT_TRUE((parsed->configuration == ProcessConfiguration{"1", true, std::nullopt, {}})) << text;
    }
}

struct Warned {
    std::string text;
    std::vector<std::string> warnings;
};

void PrintTo(Warned const& row, std::ostream* out) { *out << row.text; }

class Accepts : public testing::TestWithParam<Warned> {};

TEST_P(Accepts, WithExactlyTheseWarnings) {
    auto const parsed = parse(GetParam().text);
    ASSERT_TRUE(parsed) << parsed.error()[0].text();
    EXPECT_EQ(texts(parsed->warnings), GetParam().warnings);
}

INSTANTIATE_TEST_SUITE_P(
    Documents, Accepts,
    testing::Values(
        Warned{R"({"version":"prerelease-6.2.11","arguments":[{}]})", {}},
        Warned{R"({"version":"7.3"})", {}},  // only --version-match protocol needs more
        Warned{R"({"version":"1","runProcesses":false})",
               {R"(unknown key "runProcesses"; did you mean "runServers"?)"}},
        Warned{R"({"version":"1","serverCount":2})", {R"(unknown key "serverCount"; did you mean "count"?)"}},
        Warned{R"({"version":"1","RunServers":false})", {R"(unknown key "RunServers"; did you mean "runServers"?)"}},
        Warned{R"({"version":"1","zzz":{"a":[1,null,true]}})",
               {R"(unknown key "zzz"; the keys are version, runServers, count, arguments, programs, include)"}},
        Warned{R"({"version":"1","a\nb":1})",
               {R"(unknown key "a\nb"; the keys are version, runServers, count, arguments, programs, include)"}},
        Warned{with_argument(R"({"vaule":"x"})"), {R"(arguments[0]: unknown key "vaule"; did you mean "value"?)"}},
        Warned{with_argument(R"({"type":"Environment","source":"A","value":"x"})"),
               {"arguments[0].value: has no effect for type Environment"}},
        Warned{with_argument(R"({"type":"Concatenate","values":[{"source":"A","ipFamily":0}]})"),
               {"arguments[0].values[0].source: has no effect for type Literal",
                "arguments[0].values[0].ipFamily: has no effect for type Literal"}},
        Warned{with_argument(R"({"type":"Environment","source":"A","width":2})"),
               {"arguments[0].width: has no effect for type Environment"}},
        Warned{with_argument(R"({"type":"ProcessNumber","width":20})"), {}},
        Warned{with_argument(R"({"type":"ProcessNumber","multiplier":0})"), {}}));

TEST(Where, TextOfSteps) {
    json::Where const document;
    EXPECT_EQ(document.text(), "");
    json::Where const arguments{&document, "arguments"};
    json::Where const element{&arguments, std::size_t{3}};
    json::Where const type{&element, "type"};
    EXPECT_EQ(type.text(), "arguments[3].type");
    json::Where const odd{&type, "a.b\n"};
    EXPECT_EQ(odd.text(), R"(arguments[3].type["a.b\n"])");
}

}  // namespace
}  // namespace triton::config
