#include "host/volume/retry.h"

#include <gtest/gtest.h>

namespace triton::volume {
namespace {

using namespace std::chrono_literals;

TEST(VolumeRetry, TransientPausesDoubleUpToALimit) {
    Retry retry;
    RetrySettings const settings;
    BootTime const now = 100s;
    BootTime const pauses[] = {500ms, 1s, 2s, 4s, 8s, 16s, 32s, 64s, 128s, 256s, 300s, 300s};
    for (BootTime const pause : pauses) {  // with random 0: the fixed half of each pause
        retry.failed({FailureClass::transient, "no answer"}, now, settings, 0);
        EXPECT_EQ(retry.next(), now + pause);
    }
    EXPECT_FALSE(retry.is_due(now + 299s));
    EXPECT_TRUE(retry.is_due(now + 300s));
    retry.failed({FailureClass::transient, "no answer"}, now, settings, 1023);
    EXPECT_GT(*retry.next(), now + 599s);
    EXPECT_LT(*retry.next(), now + 600s);
}

TEST(VolumeRetry, EachClassHasItsCondition) {
    struct Row {
        FailureClass failure;
        bool is_due_now, is_due_later;
        std::optional<BootTime> next;
    };
    Row const rows[] = {
        {FailureClass::room, true, true, std::nullopt},
        {FailureClass::vault, true, true, std::nullopt},
        {FailureClass::server, false, true, BootTime(610s)},
        {FailureClass::permanent, false, false, std::nullopt},
    };
    for (Row const& row : rows) {
        Retry retry;
        retry.failed({row.failure, "x"}, 10s, {}, 0);
        EXPECT_EQ(retry.is_due(10s), row.is_due_now) << name_of(row.failure);
        EXPECT_EQ(retry.is_due(1000s), row.is_due_later) << name_of(row.failure);
        EXPECT_EQ(retry.next(), row.next) << name_of(row.failure);
        retry.reset();
        EXPECT_TRUE(retry.is_due(10s)) << name_of(row.failure);
    }
}

TEST(VolumeRetry, AServersRefusalIsNotOurs) {
    EXPECT_EQ(class_of(ErrorKind::denied, true), FailureClass::server);
    EXPECT_EQ(class_of(ErrorKind::denied, false), FailureClass::permanent);
    EXPECT_EQ(class_of(ErrorKind::unavailable, true), FailureClass::transient);
    EXPECT_EQ(class_of(ErrorKind::invalid, true), FailureClass::permanent);
}

}  // namespace
}  // namespace triton::volume
