#include "programs/volumemgr/board.h"

#include <gtest/gtest.h>

namespace triton::program {
namespace {

TEST(Board, TellsTheLatestValueOfEachObject) {
    Board board;
    board.publish("V", "a", "1");
    board.publish("V", "b", "1");
    board.publish("V", "a", "2");
    ASSERT_TRUE(board.after(0));
    EXPECT_EQ(board.after(0)->key, "b");
    EXPECT_EQ(board.after(2)->text, "2");
    EXPECT_EQ(board.after(board.version()), nullptr);
    std::uint64_t const version = board.version();
    board.publish("V", "a", "2");
    EXPECT_EQ(board.version(), version);
    EXPECT_EQ(board.find("V", "a")->text, "2");
    EXPECT_EQ(board.find("W", "a"), nullptr);
}

TEST(Board, WhatHasGoneIsToldUntilEverybodyHasSeenIt) {
    Board board;
    board.publish("V", "a", "1");
    board.remove("V", "a");
    board.remove("V", "a");
    board.remove("V", "never");
    EXPECT_EQ(board.find("V", "a"), nullptr);
    ASSERT_TRUE(board.after(1));
    EXPECT_EQ(board.after(1)->text, "");
    board.forget_gone(1);
    EXPECT_TRUE(board.after(1));
    board.forget_gone(board.version());
    EXPECT_EQ(board.after(0), nullptr);
}

TEST(Board, WhatComesBackIsNotForgotten) {
    Board board;
    board.publish("V", "a", "1");
    board.remove("V", "a");
    board.publish("V", "a", "2");
    board.forget_gone(board.version());
    ASSERT_TRUE(board.find("V", "a"));
    EXPECT_EQ(board.after(0)->text, "2");
}

}  // namespace
}  // namespace triton::program
