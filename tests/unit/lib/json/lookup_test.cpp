#include "lib/json/lookup.h"

#include <optional>

#include <gtest/gtest.h>

namespace triton::json {
namespace {

TEST(Lookup, NumbersWithAndWithoutAFraction) {
    EXPECT_EQ(real_of(Node{std::int64_t{-3}}), -3.0);
    EXPECT_EQ(real_of(Node{OddNumber{"0.1"}}), 0.1);
    EXPECT_EQ(real_of(Node{OddNumber{"-2.5e3"}}), -2500.0);
    EXPECT_EQ(real_of(Node{OddNumber{"18446744073709551616"}}), 18446744073709551616.0);
    EXPECT_EQ(real_of(Node{OddNumber{"1e-400"}}), 0.0);
}

TEST(Lookup, WhatADoubleCannotHoldIsNotANumber) {
    EXPECT_EQ(real_of(Node{OddNumber{"1e400"}}), std::nullopt);
    EXPECT_EQ(real_of(Node{OddNumber{"-1e400"}}), std::nullopt);
    EXPECT_EQ(real_of(Node{std::string("1.5")}), std::nullopt);
    EXPECT_EQ(real_of(Node{true}), std::nullopt);
}

}  // namespace
}  // namespace triton::json
