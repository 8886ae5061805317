#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/simulation/episode.h"
#include "tests/simulation/text.h"

// Sanitizers then end like assert(), so that the handler below can say where.
extern "C" char const* __asan_default_options() { return "abort_on_error=1"; }
extern "C" char const* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

namespace triton::simulation {

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t default_steps = 1'000'000;  // a few seconds either way
#else
constexpr std::uint64_t default_steps = 5'000'000;
#endif
constexpr std::uint64_t default_seed = 1;
// From here on a combination that was not seen is a fault of the simulation, not bad luck.
constexpr std::uint64_t steps_for_coverage = 1'000'000;

std::uint64_t number_from_environment(char const* name, std::uint64_t otherwise) {
    char const* const text = std::getenv(name);
    if (!text) return otherwise;
    std::uint64_t value = 0;
    char const* const end = text + std::strlen(text);
    auto const [stopped, error] = std::from_chars(text, end, value);
    if (error != std::errc{} || stopped != end) {
        std::fprintf(stderr, "%s must be a number, found \"%s\"\n", name, text);
        std::exit(2);
    }
    return value;
}

std::string how_to_replay(std::uint64_t seed, std::uint64_t steps) {
    return "replay: TRITON_SIMULATION_SEED=" + std::to_string(seed) +
           " TRITON_SIMULATION_STEPS=" + std::to_string(steps) +
           " simulation_test --gtest_filter=Simulation.KeepsItsInvariants\n";
}

Episode const* current = nullptr;
std::uint64_t current_seed = 0;

/// assert() aborts in the middle of an ordinary call, hence this may allocate as any other code.
void tell_where(int) {
    std::signal(SIGABRT, SIG_DFL);
    if (current) {
        std::fprintf(stderr, "%s%s", current->history().c_str(), how_to_replay(current_seed, default_steps).c_str());
    }
    std::abort();
}

/// Episode i has the seed first + i, so that the seed of a failing one is all that a replay needs.
struct Total {
    std::uint64_t steps = 0;
    std::uint64_t episodes = 0;
    Coverage coverage;
};

Total run_episodes(std::uint64_t first_seed, std::uint64_t steps) {
    Total total;
    while (total.steps < steps) {
        current_seed = first_seed + total.episodes;
        Episode episode(current_seed, steps - total.steps);
        current = &episode;
        Outcome const outcome = episode.run();
        current = nullptr;
        total.steps += outcome.steps;
        total.episodes += 1;
        total.coverage.add(outcome.coverage);
        if (outcome.violation) {
            ADD_FAILURE() << "in step " << outcome.steps << " of the episode with seed " << current_seed << ": "
                          << *outcome.violation << how_to_replay(current_seed, outcome.steps);
            break;
        }
    }
    return total;
}

constexpr std::array event_names{"Configuration", "Spawned", "SpawnFailed", "Exited",
                                 "StopAsked",     "Signal",  "NoChildLeft", "TimePassed"};
constexpr std::array action_names{
    "Spawn", "Signal", "Sweep", "Finish", "ReportStarted", "ReportExited", "ReportStartFailed", "ReportLeft"};
static_assert(event_names.size() == std::variant_size_v<launcher::Event>);
static_assert(action_names.size() == std::variant_size_v<launcher::Action>);

void print(Total const& total) {
    std::printf("%llu steps in %llu episodes, %llu times settled; processes by state and event:\n",
                static_cast<unsigned long long>(total.steps), static_cast<unsigned long long>(total.episodes),
                static_cast<unsigned long long>(total.coverage.settled));
    std::printf("%-10s", "");
    for (char const* const name : event_names)
        std::printf("%14s", name);
    for (std::size_t state = 0; state < Coverage::states; ++state) {
        std::printf("\n%-10s", text(static_cast<launcher::Supervisor::State>(state)).c_str());
        for (std::uint64_t const times : total.coverage.pairs[state])
            std::printf("%14llu", static_cast<unsigned long long>(times));
    }
    std::printf("\nactions:");
    for (std::size_t at = 0; at < action_names.size(); ++at)
        std::printf(" %s %llu", action_names[at], static_cast<unsigned long long>(total.coverage.actions[at]));
    std::printf("\n");
}

/// Results come only to what is starting, exits only from what lives, and while one lives, waitpid has a child left.
bool is_possible(std::size_t state, std::size_t event) {
    bool const is_starting = state == 1;
    bool const is_alive = state >= 2 && state <= 4;
    switch (event) {
        case 1:
        case 2: return is_starting;
        case 3: return is_alive;
        case 6: return !is_alive;
        default: return true;
    }
}

void expect_everything_seen(Coverage const& coverage) {
    for (std::size_t state = 0; state < Coverage::states; ++state) {
        for (std::size_t event = 0; event < event_names.size(); ++event) {
            auto const name = text(static_cast<launcher::Supervisor::State>(state));
            if (is_possible(state, event)) {
                EXPECT_GT(coverage.pairs[state][event], 0) << name << " x " << event_names[event] << " was never tried";
            } else {
                EXPECT_EQ(coverage.pairs[state][event], 0) << name << " x " << event_names[event] << " cannot happen";
            }
        }
    }
    for (std::size_t at = 0; at < action_names.size(); ++at)
        EXPECT_GT(coverage.actions[at], 0) << action_names[at] << " was never asked for";
    for (std::uint64_t const times : coverage.phases)
        EXPECT_GT(times, 0);
    EXPECT_GT(coverage.settled, 0);
}

TEST(Simulation, KeepsItsInvariants) {
    auto const steps = number_from_environment("TRITON_SIMULATION_STEPS", default_steps);
    auto const seed = number_from_environment("TRITON_SIMULATION_SEED", default_seed);
    std::signal(SIGABRT, tell_where);
    Total const total = run_episodes(seed, steps);
    std::signal(SIGABRT, SIG_DFL);
    print(total);
    if (!HasFailure() && total.steps >= steps_for_coverage) expect_everything_seen(total.coverage);
}

TEST(Simulation, SameSeedDoesTheSame) {
    Outcome const first = Episode(7, 100'000).run();
    Outcome const second = Episode(7, 100'000).run();
    EXPECT_GT(first.steps, 0);
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_EQ(first.digest, second.digest);
}

}  // namespace

}  // namespace triton::simulation
