#include "lib/text/utf8.h"

#include <gtest/gtest.h>

namespace triton::text {
namespace {

TEST(Utf8, DecodesWhatRfc3629Allows) {
    struct Row {
        std::string_view text;
        char32_t code;
        std::size_t length;
    };
    Row const rows[] = {
        {"a", 'a', 1},
        {"\x7fz", 0x7f, 1},
        {"\u0080", 0x80, 2},
        {"\u07ff", 0x7ff, 2},
        {"\u0800", 0x800, 3},
        {"\ud7ff", 0xd7ff, 3},
        {"\uffff", 0xffff, 3},
        {"\U00010000", 0x10000, 4},
        {"\U0010ffff", 0x10ffff, 4},
        {"\x80", 0, 0},      // a byte that continues
        {"\xc0\x80", 0, 0},  // overlong
        {"\xc1\xbf", 0, 0},
        {"\xe0\x9f\xbf", 0, 0},
        {"\xf0\x8f\xbf\xbf", 0, 0},
        {"\xed\xa0\x80", 0, 0},      // a surrogate
        {"\xf4\x90\x80\x80", 0, 0},  // above U+10FFFF
        {"\xf5\x80\x80\x80", 0, 0},
        {"\xe2\x82", 0, 0},  // incomplete
        {"\xf0\x9f\x98", 0, 0},
        {"\xe2\x82z", 0, 0},
    };
    for (Row const& row : rows) {
        EXPECT_EQ(decode(row.text).code, row.code) << testing::PrintToString(row.text);
        EXPECT_EQ(decode(row.text).length, row.length) << testing::PrintToString(row.text);
    }
}

TEST(Utf8, APrefixEndsBetweenCharacters) {
    EXPECT_EQ(prefix("abc", 3), "abc");
    EXPECT_EQ(prefix("abcd", 3), "abc");
    EXPECT_EQ(prefix("ab\u20ac", 3), "ab");
    EXPECT_EQ(prefix("ab\u20ac", 4), "ab");
    EXPECT_EQ(prefix("ab\u20acx", 5), "ab\u20ac");
    EXPECT_EQ(prefix("a\U0001f600x", 4), "a");
    EXPECT_EQ(prefix("\u20ac", 2), "");
    EXPECT_EQ(prefix("\x80\x80\x80\x80\x80\x80", 5), "\x80\x80\x80\x80\x80") << "nothing that could be whole";
    EXPECT_EQ(prefix("abc\xffz", 4), "abc\xff");
}

TEST(Utf8, Shortened) {
    EXPECT_EQ(shortened("abcd", 4), "abcd");
    EXPECT_EQ(shortened("abcde", 4), "a...");
    EXPECT_EQ(shortened("\u20ac\u20ac\u20ac", 8), "\u20ac...");
}

}  // namespace
}  // namespace triton::text
