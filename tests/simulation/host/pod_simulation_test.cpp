// Runs the core of tritoncrid in a simulated host. TRITON_SIMULATION_STEPS and TRITON_SIMULATION_SEED: for longer and
// other runs.

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/simulation/host/pod_world.h"

namespace triton::simulation {
namespace {

std::uint64_t from_environment(char const* variable, std::uint64_t otherwise) {
    char const* const text = std::getenv(variable);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(PodSimulation, EverythingEndsAndNothingIsLeft) {
    std::uint64_t const steps = from_environment("TRITON_SIMULATION_STEPS", 400'000);
    std::uint64_t const first = from_environment("TRITON_SIMULATION_SEED", 1);
    constexpr std::uint64_t steps_of_episode = 400;
    std::uint64_t made = 0;
    std::uint64_t removed = 0;
    std::uint64_t kills = 0;
    std::uint64_t exits = 0;
    std::uint64_t updates = 0;
    for (std::uint64_t seed = first; seed < first + std::max<std::uint64_t>(1, steps / steps_of_episode); ++seed) {
        PodWorld world(seed);
        for (std::uint64_t i = 0; i < steps_of_episode && world.problem().empty(); ++i)
            world.step();
        world.settle();
        ASSERT_EQ(world.problem(), "") << "TRITON_SIMULATION_SEED=" << seed << " TRITON_SIMULATION_STEPS=1";
        made += world.made();
        removed += world.removed();
        kills += world.kills();
        exits += world.exits();
        updates += world.updates();
    }
    EXPECT_GT(made, steps / 200);  // the world does not stand still
    EXPECT_GT(removed, steps / 200);
    EXPECT_GT(kills, steps / 1000);
    EXPECT_GT(exits, steps / 200);
    EXPECT_GT(updates, steps / 1000);
}

}  // namespace
}  // namespace triton::simulation
