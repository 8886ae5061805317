#include "host/content/range_plan.h"

#include <random>

#include <gtest/gtest.h>

namespace triton::content {
namespace {

constexpr RangePlan::Settings settings{.range_bytes = 10, .parallel_from = 20};

TEST(RangePlan, HandsOutRangesFromTheFront) {
    RangePlan plan(35, {}, settings);
    EXPECT_EQ(plan.take(), (Interval{0, 10}));
    EXPECT_EQ(plan.take(), (Interval{10, 20}));
    EXPECT_EQ(plan.take(), (Interval{20, 30}));
    EXPECT_EQ(plan.take(), (Interval{30, 35}));
    EXPECT_EQ(plan.take(), std::nullopt);
    EXPECT_FALSE(plan.is_complete());
}

TEST(RangePlan, WhatIsSmallComesInOnePiece) {
    RangePlan plan(20, {}, settings);
    EXPECT_EQ(plan.take(), (Interval{0, 20}));
    EXPECT_EQ(plan.take(), std::nullopt);
    RangePlan resumed(1000, Intervals({{0, 985}}), settings);
    EXPECT_EQ(resumed.take(), (Interval{985, 1000}));
}

TEST(RangePlan, FillsTheGapsOfAnEarlierTime) {
    RangePlan plan(100, Intervals({{0, 12}, {20, 30}, {33, 40}}), settings);
    EXPECT_EQ(plan.take(), (Interval{12, 20}));
    EXPECT_EQ(plan.take(), (Interval{30, 33}));
    EXPECT_EQ(plan.take(), (Interval{40, 50}));
}

TEST(RangePlan, WhatDidNotComeIsTakenAgain) {
    RangePlan plan(100, {}, settings);
    Interval const first = *plan.take();
    Interval const second = *plan.take();
    plan.ended(first, 4);
    EXPECT_EQ(plan.take(), (Interval{4, 10}));
    plan.ended(second, 10);
    EXPECT_EQ(plan.take(), (Interval{20, 30}));
    EXPECT_EQ(plan.landed(), Intervals({{0, 4}, {10, 20}}));
}

TEST(RangePlan, WhatIsBeyondTheSizeDoesNotCount) {
    RangePlan const plan(10, Intervals({{0, 100}}), settings);
    EXPECT_TRUE(plan.is_complete());
    EXPECT_EQ(plan.landed(), Intervals({{0, 10}}));
    EXPECT_TRUE(RangePlan(0, {}, settings).is_complete());
}

TEST(RangePlan, MoreThanWasAskedForDoesNotCount) {
    RangePlan plan(100, {}, settings);
    Interval const range = *plan.take();
    plan.ended(range, 99);
    EXPECT_EQ(plan.landed(), Intervals({{0, 10}}));
}

TEST(RangePlan, WhateverFailsAllComesOnceAndNothingTwice) {
    for (unsigned seed = 0; seed < 300; ++seed) {
        std::mt19937 random(seed);
        std::uint64_t const size = random() % 500;
        RangePlan plan(size, Intervals({{random() % 100, random() % 200}}), settings);
        std::vector<Interval> flying;
        for (int step = 0; step < 100'000 && !plan.is_complete(); ++step) {
            if (flying.size() < 4) {
                if (auto const range = plan.take()) {
                    EXPECT_LT(range->begin, range->end);
                    EXPECT_LE(range->end, size);
                    for (Interval const& other : flying)
                        EXPECT_TRUE(range->end <= other.begin || other.end <= range->begin) << "seed " << seed;
                    for (Interval const& there : plan.landed().list())
                        EXPECT_TRUE(range->end <= there.begin || there.end <= range->begin) << "seed " << seed;
                    flying.push_back(*range);
                    continue;
                }
            }
            ASSERT_FALSE(flying.empty()) << "seed " << seed;
            std::size_t const which = random() % flying.size();
            std::uint64_t const length = flying[which].length();
            plan.ended(flying[which], random() % 3 == 0 ? random() % (length + 1) : length);
            flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(which));
        }
        EXPECT_TRUE(plan.is_complete()) << "seed " << seed;
        EXPECT_EQ(plan.landed().bytes(), size);
    }
}

}  // namespace
}  // namespace triton::content
