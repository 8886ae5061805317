#include "host/content/retry.h"

#include <gtest/gtest.h>

namespace triton::content {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr RetrySettings five_attempts{.attempts = 5, .first = seconds(1), .longest = seconds(5)};
constexpr std::uint32_t least = 0;
constexpr std::uint32_t most = 1023;

TEST(Retry, WaitsTwiceAsLongEachTimeUpToTheLimitAndThenGivesUp) {
    Retry retry(five_attempts);
    EXPECT_EQ(retry.after(FailureClass::transient, {}, least), milliseconds(500));
    EXPECT_EQ(retry.after(FailureClass::transient, {}, least), milliseconds(1000));
    EXPECT_EQ(retry.after(FailureClass::transient, {}, least), milliseconds(2000));
    EXPECT_EQ(retry.after(FailureClass::transient, {}, least), milliseconds(2500));
    EXPECT_EQ(retry.after(FailureClass::transient, {}, least), std::nullopt);
}

TEST(Retry, JitterNeverExceedsTheWholeTime) {
    EXPECT_EQ(Retry(five_attempts).after(FailureClass::transient, {}, most), milliseconds(999));
    EXPECT_EQ(Retry(five_attempts).after(FailureClass::transient, {}, UINT32_MAX), milliseconds(999));
}

TEST(Retry, ProgressForgivesWhatWasBefore) {
    Retry retry(five_attempts);
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(retry.after(FailureClass::transient, {}, least), milliseconds(500));
        retry.progressed();
    }
}

TEST(Retry, OtherClassesAreNotTriedAgain) {
    EXPECT_EQ(Retry(five_attempts).after(FailureClass::permanent, {}, least), std::nullopt);
    EXPECT_EQ(Retry(five_attempts).after(FailureClass::resource, {}, least), std::nullopt);
}

TEST(Retry, TheServerMayAskForMoreTimeWithinTheLimit) {
    EXPECT_EQ(Retry(five_attempts).after(FailureClass::transient, seconds(4), least), seconds(4));
    EXPECT_EQ(Retry(five_attempts).after(FailureClass::transient, milliseconds(1), least), milliseconds(500));
    EXPECT_EQ(Retry(five_attempts).after(FailureClass::transient, minutes(1), least), std::nullopt);
}

}  // namespace
}  // namespace triton::content
