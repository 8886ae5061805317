#include "lib/base/name_pattern.h"

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fnmatch.h>
#include <gtest/gtest.h>

namespace triton {
namespace {

struct Row {
    std::string pattern;
    std::vector<std::string> matching, other;
};

TEST(NamePattern, MatchesAsGlobHasIt) {
    std::vector<Row> const rows{
        {"", {""}, {"a"}},
        {"plain", {"plain"}, {"", "plai", "plainer", "Plain"}},
        {"*", {"", "a", "a.json"}, {".a"}},
        {"*.json", {"a.json", "a.b.json"}, {".json", ".a.json", "a.jso", "a.jsonx"}},
        {".*", {".", ".a"}, {"a"}},
        {"\\.a", {".a"}, {"a"}},
        {"?", {"a", "?"}, {"", ".", "aa"}},
        {"a*b*c", {"abc", "axbxc", "abcbc"}, {"ab", "acb"}},
        {"[a-cx]", {"a", "c", "x"}, {"d", "-", ""}},
        {"[!a-c]", {"d", "-"}, {"a", ".", ""}},
        {"[^a]", {"b"}, {"a"}},
        {"[]a]", {"]", "a"}, {"b"}},
        {"[a-]", {"a", "-"}, {"b"}},
        {"[\\]]", {"]"}, {"\\"}},
        {"[[:digit:][:upper:]_]x", {"1x", "Zx", "_x"}, {"zx", ":x"}},
        {"[[:unknown:]a]", {"a"}, {"u", "b"}},
        {"[a", {"[a"}, {"a"}},
        {"\\*", {"*"}, {"a", "\\*"}},
        {"a\\", {}, {"a", "a\\"}},
        {"\xc3?", {"\xc3\xa4"}, {"\xc3"}},
    };
    for (Row const& row : rows) {
        for (std::string const& name : row.matching)
            EXPECT_TRUE(matches_pattern(row.pattern, name)) << row.pattern << " and " << name;
        for (std::string const& name : row.other)
            EXPECT_FALSE(matches_pattern(row.pattern, name)) << row.pattern << " and " << name;
    }
}

std::string text_of(std::string_view letters, std::size_t most, std::mt19937& numbers) {
    std::string text(numbers() % (most + 1), ' ');
    for (char& letter : text)
        letter = letters[numbers() % letters.size()];
    return text;
}

TEST(NamePattern, AgreesWithLibc) {
    std::mt19937 numbers(1);
    for (int i = 0; i < 50'000; ++i) {
        std::string const pattern = text_of("ab*?[]!\\", 7, numbers);
        std::string const name = text_of("ab.[]!\\", 5, numbers);
        ASSERT_EQ(matches_pattern(pattern, name), ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0)
            << pattern << " and " << name;
    }
}

TEST(NamePattern, TakesNoLongerForManyStars) {
    std::string const name(250, 'a');
    std::string pattern;
    for (int i = 0; i < 100; ++i)
        pattern += "a*";
    EXPECT_FALSE(matches_pattern(pattern + "b", name));
}

}  // namespace
}  // namespace triton
