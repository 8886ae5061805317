// Runs the core of the volume manager in a simulated host. TRITON_SIMULATION_STEPS and TRITON_SIMULATION_SEED: for
// longer and other runs.

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/simulation/host/volume_world.h"

namespace triton::simulation {
namespace {

std::uint64_t number_of_variable(char const* variable, std::uint64_t otherwise) {
    char const* const text = std::getenv(variable);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(VolumeSimulation, WhatIsWantedComesToExistAndNothingElseStays) {
    std::uint64_t const steps = number_of_variable("TRITON_SIMULATION_STEPS", 200'000);
    std::uint64_t const first = number_of_variable("TRITON_SIMULATION_SEED", 1);
    constexpr std::uint64_t steps_of_episode = 500;
    std::uint64_t created = 0;
    std::uint64_t destroyed = 0;
    std::uint64_t kills = 0;
    std::uint64_t taken = 0;
    std::uint64_t rolled_back = 0;
    for (std::uint64_t seed = first; seed < first + std::max<std::uint64_t>(1, steps / steps_of_episode); ++seed) {
        VolumeWorld world(seed);
        for (std::uint64_t i = 0; i < steps_of_episode && world.problem().empty(); ++i)
            world.step();
        world.settle();
        ASSERT_EQ(world.problem(), "") << "TRITON_SIMULATION_SEED=" << seed << " TRITON_SIMULATION_STEPS=1";
        created += world.created();
        destroyed += world.destroyed();
        kills += world.kills();
        taken += world.taken();
        rolled_back += world.rolled_back();
    }
    EXPECT_GT(created, steps / 100);  // the world does not stand still
    EXPECT_GT(destroyed, steps / 200);
    EXPECT_GT(kills, steps / 1000);
    EXPECT_GT(taken, steps / 500);
    EXPECT_GT(rolled_back, steps / 2000);
}

}  // namespace
}  // namespace triton::simulation
