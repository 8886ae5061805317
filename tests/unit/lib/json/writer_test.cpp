#include "lib/json/writer.h"

#include <array>
#include <limits>

#include <gtest/gtest.h>

namespace triton::json {
namespace {

TEST(JsonWriter, SetsCommasAndEscapes) {
    Writer out;
    out.open('{').member("text", "a\"\n\xff").member("flag", true).key("list").open('[');
    out.value(std::string("x")).open('{').close('}').open('[').close(']').raw("null").close(']');
    out.name("a\"b").value(-1).close('}');
    EXPECT_EQ(out.text(),
              "{\"text\":\"a\\\"\\n\xef\xbf\xbd\",\"flag\":true,\"list\":[\"x\",{},[],null],\"a\\\"b\":-1}");
    EXPECT_EQ(out.size(), out.text().size());
}

TEST(JsonWriter, TakesNumbersOfAllSizes) {
    Writer out;
    out.open('[').value(std::numeric_limits<std::int64_t>::min()).value(std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(out.value(std::uint8_t{7}).close(']').text(), "[-9223372036854775808,18446744073709551615,7]");
}

TEST(JsonWriter, WritesTimesAsSeconds) {
    Writer out;
    out.open('[')
        .value(Duration(milliseconds(61'005)))
        .value(Duration(-1))
        .value(Duration(milliseconds(1) / 2 - Duration(1)));
    out.seconds(1'700'000'000'000'042).seconds(-5);
    EXPECT_EQ(out.close(']').text(), "[61.005,0.000,0.000,1700000000.000042,0.000000]");
}

TEST(JsonWriter, SetsBlanksWhereClientsCompareTheText) {
    Writer out(Spacing::blanks);
    out.open('{').member("a", 1).key("b").list(std::array{"x", "y"}).close('}');
    EXPECT_EQ(std::move(out).text(), R"({"a": 1, "b": ["x", "y"]})");
}

TEST(JsonWriter, TakesBackAMember) {
    Writer out;
    out.open('{').member("a", 1);
    std::size_t const before = out.size();
    out.member("b", "far too long");
    out.rewind(before);
    EXPECT_EQ(out.member("c", 2).close('}').text(), R"({"a":1,"c":2})");
}

TEST(JsonWriter, GivesBackWhatWasRead) {
    for (std::string_view const text : {"null", "true", "false", "-12", "1.5e300", "18446744073709551616",
                                        R"("a\"b\n")", "[]", "[1,[2],{}]", R"({"a":1,"b":{"c":[null]}})"}) {
        ProblemList problems{1};
        auto const node = read_json(text, Limits{}, problems);
        ASSERT_TRUE(node);
        EXPECT_EQ(Writer{}.value(*node).text(), text);
    }
}

}  // namespace
}  // namespace triton::json
