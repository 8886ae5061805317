#include "lib/json/reader.h"

#include <string>

#include <gtest/gtest.h>

#include "lib/json/writer.h"

namespace triton::json {

namespace {

/// What is read from a text, and what is wrong with it, as one text.
std::string reading_of(std::string const& text, Limits const& limits = {}) {
    ProblemList problems(limits.problems);
    auto const root = read_json(text, limits, problems);
    std::string all = root ? Writer().value(*root).text() : "nothing";
    for (Problem const& problem : std::move(problems).take())
        all += "\n" + problem.text();
    return all;
}

/// The same of the first of two elements. The second one is text that only the library reads.
std::string reading_by_library(std::string const& text, Limits const& limits = {}) {
    return reading_of("[" + text + R"(,"\u00e9"])", limits);
}
std::string reading_alone(std::string const& text, Limits const& limits = {}) {
    return reading_of("[" + text + R"(,"e"])", limits);
}

std::string as_if_by_library(std::string reading) {
    std::size_t const at = reading.find(R"("e"])");
    if (at != std::string::npos) reading.replace(at, 3, "\"\u00e9\"");
    return reading;
}

}  // namespace

TEST(ReadJson, PlainTextIsReadAsTheLibraryReadsIt) {
    for (std::string const text : {R"({})",
                                   R"([])",
                                   R"("")",
                                   R"({"a":1})",
                                   R"( { "a" : [ 1 , 2 ] , "b" : { "c" : null } } )",
                                   "true",
                                   "false",
                                   "null",
                                   "0",
                                   "-0",
                                   "-1",
                                   "123456789012345678",
                                   "-123456789012345678",
                                   "1234567890123456789",
                                   "9223372036854775807",
                                   "-9223372036854775808",
                                   "9223372036854775808",
                                   "18446744073709551615",
                                   "99999999999999999999",
                                   "1.5",
                                   "-1e3",
                                   "1E400",
                                   R"("\"\\\/\b\f\n\r\t")",
                                   R"("a\u0041\ud83d\ude00")",
                                   "\"\x7f\"",
                                   "\"\u00e4\"",
                                   "\t\r\n1",
                                   R"({"a":1,"b":2,"a":3,"a":4})",
                                   R"({"b":1,"a":2})",
                                   R"([{"a":1,"a":2}])"})
        EXPECT_EQ(as_if_by_library(reading_alone(text)), reading_by_library(text)) << text;
}

TEST(ReadJson, WhatIsNotJsonIsRefusedAsTheLibraryRefusesIt) {
    for (std::string const text :
         {"01",          "-",           "- 1",      "-01",      "1x",         "+1",      ".5",
          "1.",          "tru",         "truex",    "nulll",    "nan",        "'a'",     "{",
          "}",           "[",           "]",        "[1,]",     "[,1]",       "[1 2]",   R"({"a"})",
          R"({"a":})",   R"({"a":1,})", R"({a:1})", R"({1:1})", R"({"a" 1})", R"("\x")", R"("\u12")",
          R"("\ud800")", "\"\n\"",      "\"\x1f\"", "\"\xff\"", "1 /* one */"}) {
        std::string const alone = reading_of(text);
        EXPECT_TRUE(alone.starts_with("nothing\nline 1, column ") || alone.starts_with("nothing\nline 2, column "))
            << text << ": " << alone;
    }
    for (std::string const text : {R"("a)", R"("a\)", "[1", R"({"a":1)"})
        EXPECT_TRUE(reading_of(text).starts_with("nothing\nline 1, column ")) << text;
}

TEST(ReadJson, LimitsCountAsInTheLibrary) {
    Limits limits;
    limits.depth = 3;
    for (std::string const text : {"[[1]]", "[[[1]]]", R"({"a":{"b":[]}})", R"({"a":{"b":1}})"})
        EXPECT_EQ(as_if_by_library(reading_alone(text, limits)), reading_by_library(text, limits)) << text;
    limits.values = 4;
    EXPECT_EQ(reading_of("[1,2,3]", limits), "[1,2,3]");
    EXPECT_EQ(reading_of("[1,2,3,4]", limits), "nothing\nhas more than 4 values");
    EXPECT_EQ(reading_of("[[[[1]]]]", limits), "nothing\n[0][0][0]: nested deeper than 3 levels");
}

/// What is read before it turns out that the library has to read is told once.
TEST(ReadJson, ProblemsAreToldOnce) {
    EXPECT_EQ(reading_of(R"({"a":1,"a":2})"), R"({"a":1,"a":2})"
                                              "\na: duplicate key");
    EXPECT_EQ(reading_of(R"({"x":{"a":1,"a":2},"y":1.5})"), R"({"x":{"a":1,"a":2},"y":1.5})"
                                                            "\nx.a: duplicate key");
}

}  // namespace triton::json
