#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "tests/simulation/episode.h"
#include "tests/simulation/text.h"

// Sanitizers then end like assert(), so that the handler below can say where.
extern "C" char const* __asan_default_options() { return "abort_on_error=1"; }
extern "C" char const* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

// Not inlined, else GCC takes malloc and delete for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
    auto& memory = triton::simulation::memory;
    ++memory.allocations;
    bool const is_counting_down = memory.refused_after > 0;
    if (is_counting_down) --memory.refused_after;
    bool const is_refused = is_counting_down && memory.refused_after == 0;
    void* const room = is_refused ? nullptr : std::malloc(size > 0 ? size : 1);
    if (!room) throw std::bad_alloc();
    return room;
}
// NOLINTBEGIN(clang-analyzer-cplusplus.NewDelete): the analyzer does not see that this is what delete means.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
// NOLINTEND(clang-analyzer-cplusplus.NewDelete)

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

constexpr std::array event_names{"Configuration", "Spawned",   "SpawnFailed",  "Executed",   "Exited",
                                 "MainFound",     "Ready",     "WatchdogPing", "ExtendTime", "HelperEnded",
                                 "Schedule",      "StopAsked", "Signal",       "Command",    "NoChildLeft",
                                 "TimePassed",    "TreeEmpty", "SignalFailed"};
constexpr std::array action_names{"Spawn",
                                  "Signal",
                                  "SignalRest",
                                  "EndTree",
                                  "RunHelper",
                                  "CancelHelper",
                                  "Sweep",
                                  "Finish",
                                  "ReportStarted",
                                  "ReportMain",
                                  "ReportReady",
                                  "ReportExited",
                                  "ReportStartFailed",
                                  "ReportLeft",
                                  "ReportGaveUp",
                                  "ReportTimedOut",
                                  "ReportUnhealthy",
                                  "ReportHealthy",
                                  "ReportSkipped",
                                  "ReportEnding"};
constexpr std::array why_names{"stop", "kill", "forward", "reload", "watchdog", "asked"};
constexpr std::array auxiliary_names{"alone", "failed", "passed over", "outlived", "last", "short of time"};
static_assert(auxiliary_names.size() == auxiliary_cases);
static_assert(event_names.size() == std::variant_size_v<launcher::Event>);
static_assert(action_names.size() == kinds_of_action);
static_assert(why_names.size() == std::tuple_size_v<decltype(Coverage::whys)>);

using Number = unsigned long long;

void print(Total const& total) {
    std::printf(
        "%llu steps in %llu episodes: %llu times settled, %llu containers ended by themselves, %llu supervisors "
        "replaced, %llu rounds in which everything failed; processes by state and event:\n",
        Number{total.steps}, Number{total.episodes}, Number{total.coverage.settled}, Number{total.coverage.ended},
        Number{total.coverage.replaced}, Number{total.coverage.hostile_rounds});
    std::printf("%-10s", "");
    for (char const* const name : event_names)
        std::printf("%14s", name);
    for (std::size_t state = 0; state < launcher::process_states; ++state) {
        std::printf("\n%-10s", text(static_cast<launcher::ProcessState>(state)).c_str());
        for (std::uint64_t const times : total.coverage.pairs[state])
            std::printf("%14llu", Number{times});
    }
    std::printf("\nactions:");
    for (std::size_t at = 0; at < action_names.size(); ++at)
        std::printf(" %s %llu", action_names[at], Number{total.coverage.actions[at]});
    std::printf("\nsignals:");
    for (std::size_t at = 0; at < why_names.size(); ++at)
        std::printf(" %s %llu", why_names[at], Number{total.coverage.whys[at]});
    std::printf("\nhelpers:");
    for (std::size_t at = 0; at < launcher::helper_kinds; ++at)
        std::printf(" %s %llu (%llu cancelled)", text(static_cast<launcher::Helper>(at)).c_str(),
                    Number{total.coverage.helpers[at]}, Number{total.coverage.cancelled[at]});
    std::printf("\nauxiliary programs:");
    for (std::size_t at = 0; at < auxiliary_cases; ++at)
        std::printf(" %s %llu", auxiliary_names[at], Number{total.coverage.auxiliary[at]});
    std::printf("\n");
}

bool is_alive(launcher::ProcessState state) {
    using enum launcher::ProcessState;
    return state == executing || state == activating || state == up || state == draining || state == pre_stop ||
           state == stopping || state == killing;
}

/// Results come only to what is starting, exits only from what lives, and while one lives, waitpid has a child left.
bool is_possible(launcher::ProcessState state, launcher::Event const& event) {
    namespace e = launcher::event;
    if (std::holds_alternative<e::Spawned>(event) || std::holds_alternative<e::SpawnFailed>(event))
        return state == launcher::ProcessState::starting;
    if (std::holds_alternative<e::Exited>(event) || std::holds_alternative<e::Executed>(event)) return is_alive(state);
    if (std::holds_alternative<e::NoChildLeft>(event))
        return !is_alive(state) && state != launcher::ProcessState::clearing;
    return true;
}

template <std::size_t index = 0>
launcher::Event event_at(std::size_t at) {
    if constexpr (index < std::variant_size_v<launcher::Event>) {
        return at == index ? launcher::Event(std::in_place_index<index>) : event_at<index + 1>(at);
    } else {
        std::abort();
    }
}

void expect_everything_seen(Coverage const& coverage) {
    for (std::size_t state = 0; state < launcher::process_states; ++state) {
        auto const that = static_cast<launcher::ProcessState>(state);
        for (std::size_t event = 0; event < event_names.size(); ++event) {
            if (is_possible(that, event_at(event))) {
                EXPECT_GT(coverage.pairs[state][event], 0)
                    << text(that) << " x " << event_names[event] << " was never tried";
            } else {
                EXPECT_EQ(coverage.pairs[state][event], 0)
                    << text(that) << " x " << event_names[event] << " cannot happen";
            }
        }
    }
    for (std::size_t at = 0; at < action_names.size(); ++at)
        EXPECT_GT(coverage.actions[at], 0) << action_names[at] << " was never asked for";
    for (std::size_t at = 0; at < why_names.size(); ++at)
        EXPECT_GT(coverage.whys[at], 0) << "no signal was for " << why_names[at];
    for (std::size_t at = 0; at < launcher::helper_kinds; ++at) {
        EXPECT_GT(coverage.helpers[at], 0) << text(static_cast<launcher::Helper>(at)) << " never ran";
        EXPECT_GT(coverage.cancelled[at], 0) << text(static_cast<launcher::Helper>(at)) << " was never cancelled";
    }
    for (std::size_t at = 0; at < auxiliary_cases; ++at)
        EXPECT_GT(coverage.auxiliary[at], 0) << "no auxiliary program was " << auxiliary_names[at];
    for (std::uint64_t const times : coverage.phases)
        EXPECT_GT(times, 0);
    EXPECT_GT(coverage.settled, 0);
    EXPECT_GT(coverage.replaced, 0);
    EXPECT_GT(coverage.ended, 0);
    EXPECT_GT(coverage.refused, 0);
    EXPECT_GT(coverage.helpers_above_count, 0);
    EXPECT_GT(coverage.hostile_rounds, 0);
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
