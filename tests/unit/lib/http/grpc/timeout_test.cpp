#include "lib/http/grpc/timeout.h"

#include <gtest/gtest.h>

namespace {

using namespace triton;
using http::grpc::parse_timeout;

TEST(GrpcTimeout, HasAUnit) {
    EXPECT_EQ(parse_timeout("1n"), Duration(1));
    EXPECT_EQ(parse_timeout("20u"), std::chrono::microseconds(20));
    EXPECT_EQ(parse_timeout("300m"), std::chrono::milliseconds(300));
    EXPECT_EQ(parse_timeout("2S"), std::chrono::seconds(2));
    EXPECT_EQ(parse_timeout("3M"), std::chrono::minutes(3));
    EXPECT_EQ(parse_timeout("4H"), std::chrono::hours(4));
    EXPECT_EQ(parse_timeout("0S"), Duration(0));
}

TEST(GrpcTimeout, OverflowsNothing) {
    EXPECT_EQ(parse_timeout("99999999H"), std::chrono::hours(24 * 365));
    EXPECT_EQ(parse_timeout("99999999n"), Duration(99'999'999));
}

TEST(GrpcTimeout, OtherTextIsNone) {
    for (char const* const bad : {"", "S", "1", "1s", "-1S", "+1S", "1 S", "123456789S", "1.5S", "0x1S"})
        EXPECT_EQ(parse_timeout(bad), std::nullopt) << bad;
}

TEST(GrpcTimeout, IsWrittenInTheFinestUnitThatHasRoom) {
    using http::grpc::timeout_text;
    EXPECT_EQ(timeout_text(Duration(-1)), "0n");
    EXPECT_EQ(timeout_text(Duration(99'999'999)), "99999999n");
    EXPECT_EQ(timeout_text(std::chrono::milliseconds(100)), "100000u");
    EXPECT_EQ(timeout_text(std::chrono::seconds(120)), "120000m");
    for (Duration const one : {Duration(std::chrono::seconds(3)), Duration(std::chrono::hours(24 * 365))})
        EXPECT_EQ(parse_timeout(timeout_text(one)), one);
}

}  // namespace
