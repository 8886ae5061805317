#include "host/metadata/frame.h"

#include <gtest/gtest.h>

namespace triton::metadata {

namespace {

/// Source: "SmartOS Metadata Protocol Specification, Version 2", the example of a request and of its response.
TEST(Frame, IsThatOfTheSpecification) {
    EXPECT_EQ(parse_frame("21 265ae1d8 dc4fae17 SUCCESS W10="), (Frame{"dc4fae17", "SUCCESS", "[]"}));
    EXPECT_EQ(frame_line({"dc4fae17", "SUCCESS", "[]"}), "V2 21 265ae1d8 dc4fae17 SUCCESS W10=\n");
}

TEST(Frame, IsReadAsItIsWritten) {
    for (Frame const& frame : {Frame{"0", "KEYS", ""}, Frame{"ffffffff", "GET", "sdc:uuid"},
                               Frame{"1a", "PUT", std::string("a\0b\n ", 5)}}) {
        std::string const line = frame_line(frame);
        EXPECT_EQ(parse_frame(std::string_view(line).substr(3, line.size() - 4)), frame);
    }
}

TEST(Frame, DamagedOnesAreNone) {
    std::string const line = frame_line({"dc4fae17", "GET", "key"});
    std::string const good = line.substr(3, line.size() - 4);
    ASSERT_TRUE(parse_frame(good));
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = bad[at] == 'x' ? 'y' : 'x';
        EXPECT_EQ(parse_frame(bad), std::nullopt) << bad;
        EXPECT_EQ(parse_frame(good.substr(0, at)), std::nullopt);
    }
    EXPECT_EQ(parse_frame(good + " "), std::nullopt);
    EXPECT_EQ(parse_frame("99999999999999999999 " + good), std::nullopt);
    EXPECT_EQ(parse_frame(""), std::nullopt);
}

}  // namespace

}  // namespace triton::metadata
