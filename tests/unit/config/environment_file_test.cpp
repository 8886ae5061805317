#include "config/environment_file.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::config {
namespace {

using namespace std::string_literals;

struct Row {
    std::string text;
    std::vector<EnvironmentVariable> values;
    std::vector<std::string> problems;
};

constexpr auto bad_name = "has no valid name before the =; a name is letters, digits, _, . and -, not a digit first";

void PrintTo(Row const& row, std::ostream* out) { *out << testing::PrintToString(row.text); }

class EnvironmentFileTable : public testing::TestWithParam<Row> {};

TEST_P(EnvironmentFileTable, Row) {
    auto const file = parse_environment_file(GetParam().text);
    EXPECT_EQ(file.values, GetParam().values);
    std::vector<std::string> problems;
    for (json::Problem const& problem : file.problems)
        problems.push_back(problem.text());
    EXPECT_EQ(problems, GetParam().problems);
}

INSTANTIATE_TEST_SUITE_P(
    Good, EnvironmentFileTable,
    testing::Values(
        Row{"", {}, {}}, Row{"\n\r\n  \n# comment\n  # A=1\n", {}, {}}, Row{"A=1", {{"A", "1"}}, {}},
        Row{"A=1\nB=2\n", {{"A", "1"}, {"B", "2"}}, {}}, Row{"A=1\r\nB=2\r\n", {{"A", "1"}, {"B", "2"}}, {}},
        Row{"A=x=y==\nB=", {{"A", "x=y=="}, {"B", ""}}, {}},
        Row{"A= \"quoted\" $B #no comment \\", {{"A", " \"quoted\" $B #no comment \\"}}, {}},
        Row{"export A=1\nexport \t_b2=2\n  export C=3\n\tD=4", {{"A", "1"}, {"C", "3"}, {"D", "4"}, {"_b2", "2"}}, {}},
        Row{"discovery.type=single-node\nexport x-y=1\n.a=\n-=",
            {{"-", ""}, {".a", ""}, {"discovery.type", "single-node"}, {"x-y", "1"}},
            {}},
        Row{"export=1\nexported=2", {{"export", "1"}, {"exported", "2"}}, {}},
        Row{"B=1\nA=1\nB=2\nA=\nB=3", {{"A", ""}, {"B", "3"}}, {}}, Row{"A=\xff\xfe\r", {{"A", "\xff\xfe"}}, {}}));

INSTANTIATE_TEST_SUITE_P(
    Bad, EnvironmentFileTable,
    testing::Values(Row{"A=1\n\nsecret\nB=2", {{"A", "1"}, {"B", "2"}}, {"line 3: is not of the form NAME=value"}},
                    Row{"=1\n2A=1\nA/B=1\nA =1\n\xc3\xa9=1\nexport A B=1",
                        {},
                        {"line 1: "s + bad_name, "line 2: "s + bad_name, "line 3: "s + bad_name, "line 4: "s + bad_name,
                         "line 5: "s + bad_name, "line 6: "s + bad_name}},
                    Row{"export", {}, {"line 1: is not of the form NAME=value"}},
                    Row{"export \nA=1", {{"A", "1"}}, {"line 1: is not of the form NAME=value"}},
                    Row{"A=1\0002\nB=1"s, {{"B", "1"}}, {"line 1: contains a NUL byte"}},
                    Row{"\xef\xbb\xbf"
                        "A=1",
                        {{"A", "1"}},
                        {"line 1: starts with a byte order mark; save the file as UTF-8 without one"}},
                    Row{std::string((1 << 20) + 1, '\n'), {}, {"is larger than 1048576 bytes"}}));

TEST(EnvironmentFile, ManyBadLinesAreCounted) {
    std::string text;
    for (int i = 0; i < 1000; ++i)
        text += "bad\n";
    auto const file = parse_environment_file(text);
    ASSERT_EQ(file.problems.size(), 101U);
    EXPECT_EQ(file.problems[99].text(), "line 100: is not of the form NAME=value");
    EXPECT_EQ(file.problems[100].text(), "and 900 more");
}

TEST(EnvironmentFile, ManyNamesTakeNoQuadraticTime) {
    std::string text;
    for (int i = 0; i < 100'000; ++i)
        text += "A" + std::to_string(i) + "=\n";
    EXPECT_EQ(parse_environment_file(text).values.size(), 100'000U);
}

}  // namespace
}  // namespace triton::config
