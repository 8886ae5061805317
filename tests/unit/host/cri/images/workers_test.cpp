#include "host/cri/images/workers.h"

#include <atomic>
#include <latch>

#include <gtest/gtest.h>

namespace {

using triton::cri::Workers;

TEST(CriWorkers, WorkSideBySideUpToTheirNumber) {
    std::latch both(2);
    std::latch ended(3);
    std::atomic<int> at_once = 0;
    std::atomic<int> most = 0;
    Workers workers(2);
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(workers.run([&, i] {
            int const now = ++at_once;
            for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
            }
            if (i < 2) both.arrive_and_wait();  // only two threads get past this
            --at_once;
            ended.count_down();
        }));
    }
    ended.wait();
    EXPECT_EQ(most, 2);
}

TEST(CriWorkers, WaitForWhatTheyDoWhenTheyEnd) {
    std::atomic<bool> is_done = false;
    std::latch begun(1);
    {
        Workers workers(1);
        ASSERT_TRUE(workers.run([&] {
            begun.count_down();
            is_done = true;
        }));
        begun.wait();
    }
    EXPECT_TRUE(is_done);
}

}  // namespace
