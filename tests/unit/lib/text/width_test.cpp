#include "lib/text/width.h"

#include <gtest/gtest.h>

namespace triton::text {
namespace {

TEST(Width, CountsColumns) {
    EXPECT_EQ(width_of("äö日"), 4U);
    EXPECT_EQ(width_of("e\u0301"), 1U);
    EXPECT_EQ(width_of("\xff\xc3"), 2U);
    EXPECT_EQ(width_of("한국 🐧"), 7U);
}

TEST(Width, APrefixFits) {
    EXPECT_EQ(prefix_of_width("abc", 3), "abc");
    EXPECT_EQ(prefix_of_width("abcd", 3), "abc");
    EXPECT_EQ(prefix_of_width("日本", 3), "日");
    EXPECT_EQ(prefix_of_width("e\u0301x", 1), "e\u0301");
}

TEST(Width, Padded) {
    EXPECT_EQ(padded("日", 4), "日  ");
    EXPECT_EQ(padded("abcd", 3), "abcd");
}

TEST(Width, AlignsColumns) {
    std::vector<std::vector<std::string>> const rows{{"NAME", "SIZE"}, {"日本", "1"}, {"a", ""}};
    EXPECT_EQ(aligned(rows), "NAME  SIZE\n日本  1\na\n");
    std::size_t const least[] = {6};
    EXPECT_EQ(aligned(rows, least), "NAME    SIZE\n日本    1\na\n");
    EXPECT_EQ(aligned({}), "");
}

}  // namespace
}  // namespace triton::text
