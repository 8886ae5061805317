#include "lib/base/rare.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace triton {
namespace {

static_assert(sizeof(Rare<std::string>) == sizeof(void*));

struct Pair {
    int one = 1;
    std::string two = {};

    bool operator==(Pair const&) const = default;
};

TEST(Rare, IsEmptyWithoutAValue) {
    Rare<Pair> const empty;
    EXPECT_FALSE(empty);
    EXPECT_FALSE(Rare<Pair>(std::nullopt));
    EXPECT_FALSE(Rare<Pair>(std::optional<Pair>()));
    EXPECT_EQ(empty.value_or(Pair{7, "x"}).one, 7);
}

TEST(Rare, TakesWhatMakesAValue) {
    Rare<std::string> text = "one";
    EXPECT_EQ(*text, "one");
    text = "two";
    EXPECT_EQ(text->size(), 3U);
    EXPECT_EQ(Rare<std::string>(std::optional<std::string>("three")), std::string("three"));
    Rare<Pair> pair;
    pair = {.one = 2, .two = "two"};
    EXPECT_EQ(pair->two, "two");
    pair.emplace().one = 3;
    EXPECT_EQ(*pair, (Pair{3, ""}));
    pair = std::nullopt;
    EXPECT_EQ(pair, std::nullopt);
}

TEST(Rare, CopiesAreDeep) {
    Rare<std::string> text = "one";
    Rare<std::string> copy = text;
    *copy += "!";
    EXPECT_EQ(*text, "one");
    copy = text;
    EXPECT_EQ(copy, text);
    EXPECT_NE(&*copy, &*text);
    Rare<std::string>& same = copy;
    copy = same;
    EXPECT_EQ(*copy, "one");
    copy = Rare<std::string>();
    EXPECT_FALSE(copy);
}

TEST(Rare, AMoveLeavesNothing) {
    Rare<std::string> text = "one";
    Rare<std::string> const other = std::move(text);
    EXPECT_EQ(*other, "one");
    EXPECT_FALSE(text);  // NOLINT(bugprone-use-after-move): that is what is tested
}

TEST(Rare, ComparesValues) {
    EXPECT_EQ(Rare<int>(1), Rare<int>(1));
    EXPECT_NE(Rare<int>(1), Rare<int>(2));
    EXPECT_NE(Rare<int>(1), Rare<int>());
    EXPECT_NE(Rare<int>(), Rare<int>(1));
    EXPECT_EQ(Rare<int>(), Rare<int>());
    EXPECT_NE(Rare<int>(), 1);
}

}  // namespace
}  // namespace triton
