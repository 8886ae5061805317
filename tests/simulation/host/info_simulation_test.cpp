// Runs vminfod's core in a simulated host. TRITON_SIMULATION_STEPS and TRITON_SIMULATION_SEED: for longer and other
// runs.

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/simulation/host/info_world.h"

namespace triton::simulation {
namespace {

std::uint64_t number_of(char const* variable, std::uint64_t otherwise) {
    char const* const text = std::getenv(variable);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(InfoSimulation, TheCacheBecomesWhatTheHostIs) {
    std::uint64_t const steps = number_of("TRITON_SIMULATION_STEPS", 24'000);
    std::uint64_t const first = number_of("TRITON_SIMULATION_SEED", 1);
    constexpr std::uint64_t steps_of_episode = 3'000;
    std::uint64_t events = 0;
    std::uint64_t answered = 0;
    std::uint64_t resyncs = 0;
    for (std::uint64_t seed = first; seed < first + std::max<std::uint64_t>(1, steps / steps_of_episode); ++seed) {
        InfoWorld world({.seed = seed});
        for (std::uint64_t i = 0; i < steps_of_episode && world.problem().empty(); ++i)
            world.step();
        world.settle();
        ASSERT_EQ(world.problem(), "");
        events += world.events();
        answered += world.answered();
        resyncs += world.resyncs();
    }
    EXPECT_GT(events, steps / 20);  // the world does not stand still
    EXPECT_GT(answered, steps / 40);
    EXPECT_GT(resyncs, 0U);
}

TEST(InfoSimulation, ThreeDaysTakeNoMoreMemoryThanOneHour) {
    InfoWorld world({.seed = 4711, .longest_step = std::chrono::seconds(120)});
    auto const run = [&world](std::chrono::hours hours) {
        std::size_t most = 0;
        for (auto passed = milliseconds(0); passed < hours && world.problem().empty();
             passed += std::chrono::minutes(1)) {
            world.step();
            most = std::max(most, world.bytes());
        }
        return most;
    };
    std::size_t const first_day = run(std::chrono::hours(24));
    EXPECT_LE(run(std::chrono::hours(48)), first_day + first_day / 4);
    world.settle();
    EXPECT_EQ(world.problem(), "");
}

}  // namespace
}  // namespace triton::simulation
