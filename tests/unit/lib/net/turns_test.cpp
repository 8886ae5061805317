// Expensive steps, one after the other, the peers in turn.

#include "lib/net/turns.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::net {
namespace {

using testing::ElementsAre;

class TurnsTest : public testing::Test {
protected:
    Task<> step(Turns& turns, std::string peer, bool makes_ready = false) {
        co_await turns.take(peer);
        order.push_back(peer);
        if (makes_ready) post(loop, [this] { order.emplace_back("ready"); });
    }

    Loop loop;
    std::vector<std::string> order;
};

TEST_F(TurnsTest, WhoeverAsksForManyWaitsBehindHimself) {
    Turns turns(loop);
    for (std::string const peer : {"a", "a", "a", "b", "c"})
        spawn(loop, step(turns, peer));
    loop.run();
    EXPECT_THAT(order, ElementsAre("a", "b", "c", "a", "a"));
}

TEST_F(TurnsTest, WhatIsReadyRunsBetweenTwo) {
    Turns turns(loop);
    spawn(loop, step(turns, "a", true));
    spawn(loop, step(turns, "b"));
    loop.run();
    EXPECT_THAT(order, ElementsAre("a", "ready", "b"));
}

TEST_F(TurnsTest, CheapOnesAreGivenAFewAtOnce) {
    Turns turns(loop, 2);
    spawn(loop, step(turns, "a", true));
    spawn(loop, step(turns, "a"));
    spawn(loop, step(turns, "b"));
    loop.run();
    EXPECT_THAT(order, ElementsAre("a", "b", "ready", "a"));
}

TEST_F(TurnsTest, NobodyWaitsWhenEverybodyHadATurnAMomentAgo) {
    Turns turns(loop, 2);
    EXPECT_FALSE(turns.take_now()) << "there was none yet";
    spawn(loop, step(turns, "a"));
    loop.run();
    auto const begin = std::chrono::steady_clock::now();
    while (turns.take_now())
        ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5)) << "for ever";
}

}  // namespace
}  // namespace triton::net
