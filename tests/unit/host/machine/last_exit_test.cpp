#include "host/machine/last_exit.h"

#include <gtest/gtest.h>

namespace triton::machine {
namespace {

TEST(LastExitTest, WhatIsWrittenIsRead) {
    LastExit const exit{.ended_at = 1'700'000'000'123'456, .exit_status = 133};
    std::string const text = last_exit_text(exit);
    EXPECT_EQ(text, "{\"ended_at\":1700000000123456,\"exit_status\":133}\n");
    auto const read = parse_last_exit(text, "/f");
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(*read, exit);
}

TEST(LastExitTest, ItIsToldInWords) {
    LastExit exit{.ended_at = 1, .exit_status = 1, .oom_kills = 2};
    EXPECT_EQ(reason_of(exit), "it exited with 1; the kernel killed 2 processes for want of memory");
    auto const read = parse_last_exit(last_exit_text(exit), "/f");
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, exit);
    exit = {.ended_at = 1, .exit_status = 9, .is_signal = true};
    EXPECT_EQ(reason_of(exit), "SIGKILL ended systemd-nspawn");
    EXPECT_EQ(*parse_last_exit(last_exit_text(exit), "/f"), exit);
    EXPECT_EQ(reason_of({.ended_at = 1, .exit_status = 133}), "it rebooted from inside");
    EXPECT_EQ(reason_of({.ended_at = 1, .exit_status = 0}), "it was shut down");
}

TEST(LastExitTest, OtherContentIsRefused) {
    for (char const* const text :
         {"", "garbage", "[]", "{}", R"({"ended_at":0,"exit_status":0})", R"({"ended_at":-1,"exit_status":0})",
          R"({"ended_at":9223372036854775807,"exit_status":0})", R"({"ended_at":1,"exit_status":-1})",
          R"({"ended_at":1,"exit_status":256})", R"({"ended_at":"1","exit_status":0})"}) {
        auto const read = parse_last_exit(text, "/f");
        ASSERT_FALSE(read) << text;
        EXPECT_EQ(read.error().text(), "cannot read /f: it does not say how a machine ended") << text;
        EXPECT_EQ(read.error().kind, ErrorKind::corrupt);
    }
}

TEST(LastExitTest, AStatusIsANumberOrTheNameOfASignal) {
    EXPECT_EQ(parse_exit_status("0"), 0);
    EXPECT_EQ(parse_exit_status("133"), 133);
    EXPECT_EQ(parse_exit_status("255"), 255);
    EXPECT_EQ(parse_exit_status("KILL"), 9);
    EXPECT_EQ(parse_exit_status("RTMIN+3"), 37);
    for (char const* const text : {"", "256", "-1", "KILLED", "1 ", "99999999"})
        EXPECT_EQ(parse_exit_status(text), std::nullopt) << text;
}

}  // namespace
}  // namespace triton::machine
