#include "launcher/control/ctl_attach.h"

#include <gtest/gtest.h>

namespace triton::launcher {

namespace {

TEST(DetachKeys, AreReadAsDockerHasThem) {
    EXPECT_EQ(parse_keys("ctrl-p,ctrl-q"), "\x10\x11");
    EXPECT_EQ(parse_keys("ctrl-a,d"),
              "\x01"
              "d");
    EXPECT_EQ(parse_keys("ctrl-],ctrl-@"), std::string("\x1d\0", 2));
    EXPECT_EQ(parse_keys(",,x"), ",x");
    EXPECT_EQ(parse_keys(""), "");
    for (char const* const wrong : {"ctrl-", "ctrl-P,ctrl", "ctrl-1", "ab", "ctrl-p,,"}) {
        auto const keys = parse_keys(wrong);
        if (std::string_view(wrong) == "ctrl-p,,") {
            EXPECT_EQ(keys, "\x10,");
            continue;
        }
        ASSERT_FALSE(keys) << wrong;
    }
    EXPECT_EQ(parse_keys("ctrl-p,xy").error().text(), "\"xy\" is not a key (for example ctrl-p, ctrl-], q)");
}

TEST(DetachKeys, AreFoundHoweverTheyCome) {
    KeySequence keys("\x10\x11");
    std::string out;
    EXPECT_FALSE(keys.take("a\x10", out));
    EXPECT_EQ(out, "a");
    EXPECT_TRUE(keys.take("\x11z", out));
    EXPECT_EQ(out, "a");
}

TEST(DetachKeys, BeginningThatIsAnotherIsPassedOn) {
    KeySequence keys("aab");
    std::string out;
    EXPECT_FALSE(keys.take("aaac", out));
    EXPECT_EQ(out, "aaac");
    EXPECT_FALSE(keys.take("aa", out));
    EXPECT_TRUE(keys.take("ab", out));
    EXPECT_EQ(out, "aaaca");
}

TEST(DetachKeys, NoneIsNeverTyped) {
    KeySequence keys("");
    std::string out;
    EXPECT_FALSE(keys.take(std::string_view("\0\x10\x11", 3), out));
    EXPECT_EQ(out, std::string("\0\x10\x11", 3));
}

}  // namespace

}  // namespace triton::launcher
