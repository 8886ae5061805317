#include "launcher/supervisor/restart_policy.h"

#include <limits>

#include <gtest/gtest.h>

namespace triton::launcher {

namespace {

using namespace std::chrono_literals;

constexpr RestartPolicy standard{};
constexpr Run crash{1ms, false};
constexpr double middle = 0.5;  // no jitter

struct Case {
    char const* name;
    std::uint32_t failures_before;
    Run run;
    RestartDecision expected;
};

constexpr Case cases[] = {
    {"the first failure", 0, crash, {0s, 1}},
    {"the second", 1, crash, {1s, 2}},
    {"the third", 2, crash, {2s, 3}},
    {"the seventh is the last below the maximum", 6, crash, {32s, 7}},
    {"the eighth reaches it", 7, crash, {60s, 8}},
    {"no power overflows", 5000, crash, {60s, 5001}},
    {"nor does the count", 4294967295U, crash, {60s, 4294967295U}},
    {"a failure just before the reset", 3, {60s - 1ns, false}, {4s, 4}},
    {"a failure after it counts as the first", 3, {60s, false}, {0s, 1}},
    {"a clean run that is long enough", 0, {1s, true}, {0s, 0}},
    {"it does not forget failures", 3, {1s, true}, {0s, 3}},
    {"unless it is as long as that takes", 3, {60s, true}, {0s, 0}},
    {"a clean run that is too short is a failure", 0, {1s - 1ns, true}, {0s, 1}},
    {"also the second time", 1, {0s, true}, {1s, 2}},
};

TEST(RestartPolicy, FollowsTheTable) {
    for (Case const& row : cases) {
        RestartDecision const decision = decide_restart(standard, row.failures_before, row.run, middle);
        EXPECT_EQ(decision.delay, row.expected.delay) << row.name << ": " << decision.delay.count();
        EXPECT_EQ(decision.failures, row.expected.failures) << row.name;
    }
}

TEST(RestartPolicy, JitterIsSymmetricAndNeverExceedsTheMaximum) {
    EXPECT_EQ(decide_restart(standard, 1, crash, 0).delay, 900ms);
    EXPECT_EQ(decide_restart(standard, 1, crash, 0.75).delay, 1050ms);
    EXPECT_EQ(decide_restart(standard, 50, crash, 0).delay, 54s);
    EXPECT_EQ(decide_restart(standard, 50, crash, 1 - 1e-9).delay, 60s);
    RestartPolicy wild = standard;
    wild.jitter = 1;
    EXPECT_EQ(decide_restart(wild, 1, crash, 0).delay, 0s);
}

TEST(RestartPolicy, FactorOneIsAConstantDelay) {
    RestartPolicy constant = standard;
    constant.factor = 1;
    for (std::uint32_t before : {1U, 2U, 100U})
        EXPECT_EQ(decide_restart(constant, before, crash, middle).delay, 1s);
}

TEST(RestartPolicy, EachRestartWaitsWhereThatIsAsked) {
    RestartPolicy patient = standard;
    patient.always_waits = true;
    for (Case const& row : {
             Case{"the first failure", 0, crash, {1s, 1}},
             Case{"the second", 1, crash, {2s, 2}},
             Case{"the first one after the reset", 3, {60s, false}, {1s, 1}},
             Case{"no power overflows", 4294967295U, crash, {60s, 4294967295U}},
             Case{"a success", 0, {1s, true}, {1s, 0}},
             Case{"a success between failures", 3, {1s, true}, {1s, 3}},
             Case{"one that is too short is a failure", 1, {0s, true}, {2s, 2}},
         }) {
        RestartDecision const decision = decide_restart(patient, row.failures_before, row.run, middle);
        EXPECT_EQ(decision, row.expected) << row.name << ": " << decision.delay.count();
    }
    EXPECT_EQ(decide_restart(patient, 0, {1s, true}, 0).delay, 900ms);
}

TEST(RestartPolicy, ACleanRunThatIsTooShortIsAFailure) {
    EXPECT_FALSE(is_failure(standard, {1s, true}));
    EXPECT_TRUE(is_failure(standard, {1s - 1ns, true}));
    EXPECT_TRUE(is_failure(standard, {1h, false}));
}

TEST(RestartPolicy, MaximumBelowTheDelayWins) {
    RestartPolicy short_maximum = standard;
    short_maximum.max_delay = 100ms;
    EXPECT_EQ(decide_restart(short_maximum, 1, crash, middle).delay, 100ms);
}

}  // namespace

}  // namespace triton::launcher
