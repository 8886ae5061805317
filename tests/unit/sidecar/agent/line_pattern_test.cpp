#include "sidecar/agent/line_pattern.h"

#include <string>

#include <gtest/gtest.h>

namespace triton::agent {
namespace {

bool matches(std::string_view pattern, std::string_view line) {
    auto const compiled = LinePattern::compile(pattern);
    EXPECT_TRUE(compiled) << compiled.error().text();
    return compiled && compiled->matches(line);
}

TEST(LinePattern, MatchesAnyPartOfALine) {
    EXPECT_TRUE(matches("listening on .*:8080", "2026 listening on 0.0.0.0:8080 now"));
    EXPECT_FALSE(matches("listening on .*:8080", "listening on 0.0.0.0:80"));
    EXPECT_TRUE(matches("^ready$", "ready"));
    EXPECT_FALSE(matches("^ready$", "not ready"));
    EXPECT_TRUE(matches("(?i)READY", "ready"));
    EXPECT_TRUE(matches("\xC3\xA4.", "\xC3\xA4\xC3\xB6"));
    EXPECT_TRUE(matches("a.b",
                        "a\xEF\xBF\xBD"
                        "b"))
        << "what was not UTF-8 has come as U+FFFD";
}

TEST(LinePattern, SaysWhatIsWrong) {
    auto const error_of = [](std::string_view pattern) {
        auto const compiled = LinePattern::compile(pattern);
        return compiled ? std::string() : compiled.error().text();
    };
    EXPECT_EQ(error_of("a(b"), "missing ): a(b");
    EXPECT_EQ(error_of("(?=ahead)"), "invalid perl operator: (?=");
    EXPECT_EQ(error_of("(a)\\1"), "invalid escape sequence: \\1");
    EXPECT_EQ(error_of("a{1001}"), "invalid repetition size: {1001}");
}

/// Neither takes longer than the line is long, nor more memory than a pattern has: what cannot be is refused.
TEST(LinePattern, HasNoPatternThatTakesLong) {
    std::string const line(4096, 'a');
    EXPECT_FALSE(matches("(a*)*b", line));
    EXPECT_FALSE(matches("(a|a|a)*$b", line));
    EXPECT_FALSE(LinePattern::compile("((a{100}){100}){100}")) << "too large";
}

TEST(LinePattern, CheckTellsWhichAreNone) {
    char const* const patterns[] = {"good", "a(b", "fine.*", "x\ny("};
    EXPECT_EQ(check_patterns(4, patterns), "1:missing ): a(b\n3:missing ): x y(\nchecked 4\n");
    EXPECT_EQ(check_patterns(1, patterns), "checked 1\n");
}

}  // namespace
}  // namespace triton::agent
