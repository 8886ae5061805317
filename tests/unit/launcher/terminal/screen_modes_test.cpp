#include "launcher/terminal/screen_modes.h"

#include <gtest/gtest.h>

namespace triton::launcher {

namespace {

ScreenModes after(std::string_view sent) {
    ScreenModes modes;
    modes.sent(sent);
    return modes;
}

struct Case {
    std::string_view sent, undo, redo;
};

class ScreenModesOf : public ::testing::TestWithParam<Case> {};

TEST_P(ScreenModesOf, ArePutBackAndMadeAgain) {
    Case const& at = GetParam();
    ScreenModes const modes = after(at.sent);
    EXPECT_EQ(modes.undo(), at.undo);
    EXPECT_EQ(modes.redo(), at.redo);
    // However it comes.
    ScreenModes bytewise;
    for (char const byte : at.sent)
        bytewise.sent({&byte, 1});
    EXPECT_EQ(bytewise.undo(), at.undo);
    // What is put back leaves nothing, and what is made again is what was.
    EXPECT_EQ(after(std::string(at.sent) + modes.undo()).undo(), "");
    EXPECT_EQ(after(modes.redo()).redo(), at.redo);
}

INSTANTIATE_TEST_SUITE_P(
    All, ScreenModesOf,
    ::testing::Values(Case{"", "", ""}, Case{"text\r\n\033[2J\033[5;10H\033[K\033D\033M", "", ""},
                      // Screens, by one number or several.
                      Case{"\033[?1049h", "\033[?1049l", "\033[?1049h"}, Case{"\033[?1049h\033[?1049l", "", ""},
                      Case{"\033[?1049;25h", "\033[?1049l", "\033[?1049h"}, Case{"\033[?47h\033[?1047l", "", ""},
                      Case{"\033[?25l\033[?1049h\033[?1000;1006h", "\033[?25h\033[?1000l\033[?1006l\033[?1049l",
                           "\033[?1049h\033[?25l\033[?1000h\033[?1006h"},
                      // On at first, or not private.
                      Case{"\033[?7l\033[?7h", "", ""}, Case{"\033[?7l", "\033[?7h", "\033[?7l"},
                      Case{"\033[4h", "\033[4l", "\033[4h"}, Case{"\033[?4h\033[25l", "", ""},
                      Case{"\033[?2004h", "\033[?2004l", "\033[?2004h"},
                      // Keys.
                      Case{"\033[?1h\033=", "\033[?1l\033>", "\033[?1h\033="},
                      Case{"\033[?1h\033=\033[?1l\033>", "", ""}, Case{"\033[>4;2m", "\033[>4m", "\033[>4;2m"},
                      Case{"\033[>4;2m\033[>4;m", "", ""}, Case{"\033[>4;1m\033[>4n", "", ""},
                      Case{"\033[>4;1m\033[>4;0m", "", ""}, Case{"\033[>1u\033[>5u", "\033[<2u", "\033[>1u\033[>5u"},
                      Case{"\033[>1u\033[<u", "", ""}, Case{"\033[>1u\033[>2u\033[>3u\033[<2u", "\033[<1u", "\033[>1u"},
                      Case{"\033[<9u\033[?u", "", ""}, Case{"\033[=5u", "\033[=0u", "\033[=5u"},
                      Case{"\033[=5u\033[=0;1u", "", ""}, Case{"\033[=5u\033[=2;2u\033[=1;3u", "\033[=0u", "\033[=6u"},
                      Case{"\033[=1u\033[>2u\033[=4;2u", "\033[<1u\033[=0u", "\033[=1u\033[>6u"},
                      // Each screen has its own of those.
                      Case{"\033[>1u\033[?1049h\033[>5u", "\033[<1u\033[?1049l\033[<1u", "\033[>1u\033[?1049h\033[>5u"},
                      Case{"\033[?1049h\033[>5u\033[?1049l", "", ""},
                      // What is saved comes back.
                      Case{"\033[?25l\033[?25s\033[?25h\033[?25r", "\033[?25h", "\033[?25l"},
                      Case{"\033[?1000s\033[?1000h\033[?1000r", "", ""},
                      Case{"\033[?1049h\033[?1049s\033[?1049l\033[?1049r", "\033[?1049l", "\033[?1049h"},
                      // Margins move the cursor, which has to stay; on another screen it comes back by itself.
                      Case{"\033[2;20r", "\0337\033[r\0338", ""}, Case{"\033[2;20r\033[r", "", ""},
                      Case{"\033[?1r\033[?1s", "", ""}, Case{"\033[2;20r\033[0;0r", "", ""},
                      Case{"\033[?1049h\033[2;20r", "\033[r\033[?1049l", "\033[?1049h"},
                      Case{"\033[?47h\033[2;20r", "\0337\033[r\0338\033[?47l", "\033[?47h"},
                      // Letters, colours, the cursor.
                      Case{"\033(0lqk", "\033(B", ""}, Case{"\033(0\033(B\033)0", "", ""}, Case{"\016", "\017", ""},
                      Case{"\016\017", "", ""}, Case{"\033*0\033n", "\017", ""}, Case{"\033(%5", "\033(B", ""},
                      Case{"\033%@", "\033%G", ""}, Case{"\033%@\033%G", "", ""}, Case{"\033[1;31mred", "\033[m", ""},
                      Case{"\033[1;31mred\033[0m\033[7m\033[m", "", ""}, Case{"\033[01;32mgreen\033[00m", "", ""},
                      Case{"\033[0;1m", "\033[m", ""}, Case{"\033[48;5;0m", "\033[m", ""},
                      Case{"\033[38:2::0:0:0m", "\033[m", ""}, Case{"\033[6 q", "\033[0 q", "\033[6 q"},
                      Case{"\033[6 q\033[ q", "", ""},
                      // Others of the same form.
                      Case{"\033[?25$p\033[!p\033[22;0;0t\033[>c\033[6n\033[?1;2c", "", ""},
                      // Of a form that is not one.
                      Case{"\033[25?h\033[1;?25l\033[ 25l\033[? q\033[6  q\033[??25l", "", ""},
                      // Texts that a string has are none, whatever ends it.
                      Case{"\033]0;title [?1049h\a\033P+q=\033\\\033_x[4h\033\\", "", ""},
                      // What ends it for some terminals does not for others.
                      Case{"\033Pq\a", "\033\\", ""}, Case{"\033]0;title\xc2\x9c", "\033\\", ""},
                      Case{"\033]0;\r[?25l\030\033[?25l", "\033[?25h", "\033[?25l"},
                      // Control characters act inside of a sequence; CAN ends it, ESC begins another.
                      Case{"\033[?10\n49h", "\033[?1049l", "\033[?1049h"}, Case{"\033[?1049\030h", "", ""},
                      Case{"\033[?25\033[?1049h", "\033[?1049l", "\033[?1049h"},
                      // A reset.
                      Case{"\033[?1049h\033[?25l\033[>1u\033[31m\033(0\033c", "", ""},
                      Case{"\033[?25\177l", "\033[?25h", "\033[?25l"},
                      // The controls U+0080 to U+009F, in UTF-8; not what looks like them.
                      Case{"\xc2\x9b?1049h", "\033[?1049l", "\033[?1049h"},
                      Case{"\xc3\x9b?1049h \x9b?25l \xc2\xa9[?25l \xc2 \x9b?25l", "", ""}));

TEST(ScreenModes, HalfASequenceIsEnded) {
    EXPECT_EQ(after("\033[?104").undo(), "\033\\");
    EXPECT_EQ(after("\033]0;title").undo(), "\033\\");
    EXPECT_EQ(after("\033[?1049h\033").undo(), "\033\\\033[?1049l");
    EXPECT_EQ(after("\033(").undo(), "\033\\");
}

TEST(ScreenModes, NothingThatComesIsKeptWithoutEnd) {
    EXPECT_EQ(after("\033[?" + std::string(1 << 20, '1') + "h\033[?25l").undo(), "\033[?25h");
    EXPECT_EQ(after("\033[?" + std::string(2000, ';') + "25l").undo(), "\033[?25h");
    EXPECT_EQ(after("\033[?" + std::string(2000, '0') + "25l").undo(), "\033[?25h");
    EXPECT_EQ(after("\033[" + std::string(2000, '0') + "1m").undo(), "\033[m");
    EXPECT_EQ(after("\033[?65561l").undo(), "") << "65536 and 25";
    EXPECT_EQ(after("\033[?99999999999999999999;25l").undo(), "\033[?25h");
    std::string pushes;
    for (int i = 0; i < 1000; ++i)
        pushes += "\033[>31u";
    EXPECT_EQ(after(pushes).undo(), "\033[<1000u");
    EXPECT_EQ(after(pushes + "\033[<998u").redo(), "");
    EXPECT_LE(sizeof(ScreenModes), 96U);
}

// No sequence leads where undo() does not lead back from.
TEST(ScreenModes, WhateverComesCanBePutBack) {
    constexpr std::string_view bytes = "\033[?>=<(%c;0149hlmrsquP \a\\]\030\016\n\xc2\x9b\xff";
    for (std::string_view const beginning : {"\033", "\033["})
        for (char const a : bytes)
            for (char const b : bytes)
                for (char const c : bytes) {
                    std::string const sent = std::string(beginning) + a + b + c + 'h';
                    ASSERT_EQ(after(sent + after(sent).undo()).undo(), "") << ::testing::PrintToString(sent);
                }
}

}  // namespace

}  // namespace triton::launcher
