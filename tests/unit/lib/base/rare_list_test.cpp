#include "lib/base/rare_list.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

static_assert(sizeof(RareList<int>) == sizeof(void*));

TEST(RareList, IsEmptyAtFirst) {
    RareList<int> list;
    EXPECT_TRUE(list.empty());
    EXPECT_EQ(list.size(), 0U);
    EXPECT_THAT(list, IsEmpty());
    std::vector<int> const& read = list;
    EXPECT_THAT(read, IsEmpty());
    EXPECT_EQ(list, RareList<int>(std::vector<int>()));
}

TEST(RareList, KeepsItsValuesInOrder) {
    RareList<int> list{1, 2};
    list.push_back(3);
    list.emplace_back() = 4;
    EXPECT_THAT(list, ElementsAre(1, 2, 3, 4));
    EXPECT_EQ(list.front(), 1);
    list[1] = 7;
    std::vector<int> const& read = list;
    EXPECT_THAT(read, ElementsAre(1, 7, 3, 4));
}

TEST(RareList, CopiesAreDeepAndCompareValues) {
    RareList<int> const list{1};
    RareList<int> copy = list;
    EXPECT_EQ(copy, list);
    copy.push_back(2);
    EXPECT_NE(copy, list);
    EXPECT_THAT(list, ElementsAre(1));
    copy = {1};
    EXPECT_EQ(copy, list);
    copy.clear();
    EXPECT_EQ(copy, RareList<int>());
    EXPECT_NE(copy, list);
}

}  // namespace
}  // namespace triton
