#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "launcher/supervisor.h"

namespace triton::simulation {

/// What an episode has visited: states of processes by events, before the event.
struct Coverage {
    static constexpr std::size_t states = 6;
    std::array<std::array<std::uint64_t, std::variant_size_v<launcher::Event>>, states> pairs{};
    std::array<std::uint64_t, 4> phases{};
    std::array<std::uint64_t, std::variant_size_v<launcher::Action>> actions{};
    std::uint64_t settled = 0;

    void add(Coverage const& other);
};

struct Outcome {
    std::uint64_t steps = 0;   ///< events that the supervisor has handled
    std::uint64_t digest = 0;  ///< of all actions
    Coverage coverage;
    std::optional<std::string> violation;  ///< with the last events and actions
};

/// One supervisor, from its first event to its end, on a scripted kernel and a virtual clock. The seed decides
/// everything: policy, schedule, how often what goes wrong. Ends early after `most_steps`.
class Episode {
public:
    Episode(std::uint64_t seed, std::uint64_t most_steps);
    ~Episode();
    Outcome run();
    /// The last events and actions so far: for whoever handles a crash inside run().
    [[nodiscard]] std::string history() const;

private:
    class Script;
    std::unique_ptr<Script> script_;
};

}  // namespace triton::simulation
