#include "lib/text/printable.h"

#include <gtest/gtest.h>

namespace triton::text {
namespace {

TEST(Printable, EscapesWhatATerminalObeys) {
    struct Row {
        std::string_view text, shown;
    };
    Row const rows[] = {
        {"", ""},
        {"alpine 3.20 äöü 日本 🐧", "alpine 3.20 äöü 日本 🐧"},
        {"a\x1b]0;x\x07", "a\\x1b]0;x\\x07"},
        {"a\n\t\x7f", "a\\x0a\\x09\\x7f"},
        {"\u009b2J\u00a0", "\\x9b2J\u00a0"},
        {"\u202eevil\u2066", "\\u202eevil\\u2066"},
        {"a\u200bb\u00ad", "a\\u200bb\\xad"},
        {"\U000e0041", "\\U000e0041"},
        {"\x9b\x32J \xe9\xc3\xa4\xc2", "\\x9b2J \\xe9\xc3\xa4\\xc2"},
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
        {"C:\\x1b", "C:\\x1b"},
    };
    for (Row const& row : rows)
        EXPECT_EQ(printable(row.text), row.shown);
}

TEST(Printable, ShortensBetweenCharacters) {
    EXPECT_EQ(printable("abcdef", 6), "abcdef");
    EXPECT_EQ(printable("abcdefg", 6), "abc...");
    EXPECT_EQ(printable("ab\u20ac\u20ac", 6), "ab...");
}

TEST(Printable, JsonKeepsItsMeaningAndItsLines) {
    EXPECT_EQ(printable_json("{\n\t\"a\": \"ä\u00a0\"\r\n}"), "{\n\t\"a\": \"ä\u00a0\"\r\n}");
    EXPECT_EQ(printable_json("\"\x7f\u009b[2J\u202e\U000e0041\xff\""),
              "\"\\u007f\\u009b[2J\\u202e\\udb40\\udc41\xef\xbf\xbd\"");
}

TEST(Printable, AsciiOnly) {
    EXPECT_EQ(printable_ascii("vmadm/1.0 \x1b[2Jx\n\xc3\xa4", 200), "vmadm/1.0 ?[2Jx???");
    EXPECT_EQ(printable_ascii("abcd", 3), "abc");
}

TEST(ControlSequences, ColoursAndTitlesAreLeftOut) {
    EXPECT_EQ(without_control_sequences("\x1b[1;31mred\x1b[0m and \x1b[38;5;9mmore\x1b[m"), "red and more");
    EXPECT_EQ(without_control_sequences("\x1b]0;title\aa\x1b]8;;http://x\x1b\\b\x1b(Bc\x1b=d"), "abcd");
    EXPECT_EQ(without_control_sequences("plain"), "plain");
    EXPECT_EQ(without_control_sequences("\x1b[31"), "\x1b[31") << "it is not whole: shown as it is";
    EXPECT_EQ(without_control_sequences("a\x1b"), "a\x1b");
    EXPECT_EQ(without_control_sequences("\x1b]0;no end"), "\x1b]0;no end");
}

}  // namespace
}  // namespace triton::text
