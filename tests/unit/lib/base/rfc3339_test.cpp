#include "lib/base/rfc3339.h"

#include <cstdint>
#include <ctime>

#include <gtest/gtest.h>

namespace triton {
namespace {

TEST(Rfc3339, IsInUtc) {
    EXPECT_EQ(rfc3339(1700000000), "2023-11-14T22:13:20Z");
    EXPECT_EQ(rfc3339(0), "1970-01-01T00:00:00Z");
    EXPECT_EQ(rfc3339(-1), "1969-12-31T23:59:59Z");
}

TEST(Rfc3339, KnowsEveryDayThatTheLibraryKnows) {
    for (std::int64_t second = -62'167'219'200; second <= 253'402'300'799; second += 86'400 * 29 + 12'345) {
        std::time_t const time = second;
        std::tm parts{};
        ASSERT_TRUE(::gmtime_r(&time, &parts));
        // The year by hand: strftime() does not pad one below 1000.
        std::string year = std::to_string(parts.tm_year + 1900);
        year.insert(0, 4 - year.size(), '0');
        std::array<char, 32> rest{};
        ASSERT_NE(std::strftime(rest.data(), rest.size(), "-%m-%dT%H:%M:%SZ", &parts), 0);
        ASSERT_EQ(rfc3339(second), year + rest.data());
    }
}

TEST(Rfc3339, ATimeBeyondTheYearsOfFourDigitsIsTheEpoch) {
    EXPECT_EQ(rfc3339(253'402'300'799), "9999-12-31T23:59:59Z");
    EXPECT_EQ(rfc3339(253'402'300'800), "1970-01-01T00:00:00Z");
    EXPECT_EQ(rfc3339(-62'167'219'201), "1970-01-01T00:00:00Z");
    EXPECT_EQ(rfc3339(INT64_MAX), "1970-01-01T00:00:00Z");
    EXPECT_EQ(rfc3339(INT64_MIN), "1970-01-01T00:00:00Z");
}

TEST(TimeText, ShowsMicroseconds) {
    TimeText text;
    EXPECT_EQ(text.at(1'700'000'000'000'001), "2023-11-14T22:13:20.000001Z");
    EXPECT_EQ(text.at(1'700'000'000'999'999), "2023-11-14T22:13:20.999999Z");
    EXPECT_EQ(text.at(1'700'000'001'000'000), "2023-11-14T22:13:21.000000Z");
    EXPECT_EQ(text.at(-1), "1969-12-31T23:59:59.999999Z");
    EXPECT_EQ(text.at(0), "1970-01-01T00:00:00.000000Z");
}

}  // namespace
}  // namespace triton
