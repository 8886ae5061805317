#include "lib/http/grpc/rate_limit.h"

#include <gtest/gtest.h>

namespace {

using namespace triton;
using http::grpc::RateLimit;

TEST(GrpcRateLimit, AllowsABurstAndThenAsManyAsComeBack) {
    TimePoint now{};
    RateLimit limit({.at_once = 3, .per_second = 2}, now);
    EXPECT_TRUE(limit.take(now) && limit.take(now) && limit.take(now));
    EXPECT_FALSE(limit.take(now));
    now += std::chrono::milliseconds(499);
    EXPECT_FALSE(limit.take(now));
    now += std::chrono::milliseconds(1);
    EXPECT_TRUE(limit.take(now));
    EXPECT_FALSE(limit.take(now));
    now += std::chrono::hours(1);
    EXPECT_TRUE(limit.take(now) && limit.take(now) && limit.take(now));
    EXPECT_FALSE(limit.take(now)) << "no more than a burst is saved";
}

}  // namespace
