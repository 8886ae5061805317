#include "lib/base/box.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace triton {
namespace {

TEST(Box, HasAValueFromTheStart) {
    Box<std::string> text;
    EXPECT_EQ(*text, "");
    text->append("one");
    EXPECT_EQ(text, Box<std::string>("one"));
}

TEST(Box, CopiesAreDeep) {
    Box<std::string> const text = std::string("one");
    Box<std::string> copy = text;
    *copy += "!";
    EXPECT_EQ(*text, "one");
    EXPECT_NE(copy, text);
    copy = text;
    EXPECT_EQ(copy, text);
    EXPECT_NE(&*copy, &*text);
    Box<std::string>& same = copy;
    copy = same;
    EXPECT_EQ(*copy, "one");
}

TEST(Box, AMoveLeavesTheValueWhereItIs) {
    Box<std::string> text = std::string("one");
    std::string const& value = text;
    Box<std::string> other = std::move(text);
    EXPECT_EQ(&*other, &value);
    text = std::move(other);
    EXPECT_EQ(&*text, &value);
}

}  // namespace
}  // namespace triton
