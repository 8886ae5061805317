#include "host/content/intervals.h"

#include <gtest/gtest.h>

namespace triton::content {
namespace {

using List = std::vector<Interval>;

TEST(Intervals, WhatTouchesOrOverlapsBecomesOne) {
    Intervals set({{10, 20}, {30, 40}, {50, 60}});
    set.add({20, 30});
    EXPECT_EQ(set.list(), (List{{10, 40}, {50, 60}}));
    set.add({35, 55});
    EXPECT_EQ(set.list(), (List{{10, 60}}));
    set.add({0, 5});
    set.add({70, 70});
    EXPECT_EQ(set.list(), (List{{0, 5}, {10, 60}}));
    EXPECT_EQ(set.bytes(), 55U);
    EXPECT_EQ(set.prefix(), 5U);
}

TEST(Intervals, RemovalCutsAndSplits) {
    Intervals set({{0, 100}});
    set.remove({40, 60});
    EXPECT_EQ(set.list(), (List{{0, 40}, {60, 100}}));
    set.remove({0, 10});
    set.remove({90, 200});
    EXPECT_EQ(set.list(), (List{{10, 40}, {60, 90}}));
    set.remove({0, 100});
    EXPECT_TRUE(set.empty());
}

TEST(Intervals, GapsAreWithinTheSize) {
    Intervals const set({{10, 20}, {30, 40}, {50, 60}});
    EXPECT_EQ(set.gaps(35), (List{{0, 10}, {20, 30}}));
    EXPECT_EQ(set.gaps(45), (List{{0, 10}, {20, 30}, {40, 45}}));
    EXPECT_EQ(set.gaps(0), List{});
    EXPECT_EQ(Intervals().gaps(7), (List{{0, 7}}));
    EXPECT_EQ(Intervals({{0, 7}}).gaps(7), List{});
}

TEST(Intervals, ContainsWholeIntervalsOnly) {
    Intervals const set({{10, 20}, {20, 30}, {40, 50}});
    EXPECT_TRUE(set.contains({10, 30}));
    EXPECT_TRUE(set.contains({15, 25}));
    EXPECT_TRUE(set.contains({99, 99}));
    EXPECT_FALSE(set.contains({15, 45}));
    EXPECT_FALSE(set.contains({30, 40}));
    EXPECT_FALSE(set.contains({9, 11}));
}

}  // namespace
}  // namespace triton::content
