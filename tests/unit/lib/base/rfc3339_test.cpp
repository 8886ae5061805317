#include "lib/base/rfc3339.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace triton {
namespace {

TEST(Rfc3339, IsInUtc) {
    EXPECT_EQ(rfc3339(1700000000), "2023-11-14T22:13:20Z");
    EXPECT_EQ(rfc3339(0), "1970-01-01T00:00:00Z");
    EXPECT_EQ(rfc3339(-1), "1969-12-31T23:59:59Z");
}

TEST(Rfc3339, ATimeThatNoCalendarHasIsTheEpoch) { EXPECT_EQ(rfc3339(INT64_MAX), "1970-01-01T00:00:00Z"); }

}  // namespace
}  // namespace triton
