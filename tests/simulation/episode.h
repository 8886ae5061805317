#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "launcher/supervisor/supervisor.h"
#include "tests/simulation/action.h"
#include "tests/simulation/invariants.h"

namespace triton::simulation {

/// What an episode has visited: states of processes by events, before the event.
struct Coverage {
    using Events = std::array<std::uint64_t, std::variant_size_v<launcher::Event>>;
    std::array<Events, launcher::process_states> pairs{};
    std::array<std::uint64_t, 4> phases{};
    std::array<std::uint64_t, kinds_of_action> actions{};
    std::array<std::uint64_t, 6> whys{};                            ///< of action::Signal
    std::array<std::uint64_t, launcher::helper_kinds> helpers{};    ///< of action::RunHelper
    std::array<std::uint64_t, launcher::helper_kinds> cancelled{};  ///< of action::CancelHelper
    std::array<std::uint64_t, auxiliary_cases> auxiliary{};         ///< by AuxiliaryCase
    std::uint64_t settled = 0;
    std::uint64_t replaced = 0;             ///< supervisors by one that was made from their state
    std::uint64_t ended = 0;                ///< containers that ended without being asked to
    std::uint64_t refused = 0;              ///< configurations for want of memory
    std::uint64_t helpers_above_count = 0;  ///< of processes that are not wanted any more
    std::uint64_t hostile_rounds = 0;       ///< in which whatever is started fails at once

    void add(Coverage const& other);
};

struct Outcome {
    std::uint64_t steps = 0;   ///< events that the supervisor has handled
    std::uint64_t digest = 0;  ///< of all actions
    Coverage coverage;
    std::optional<std::string> violation;  ///< with the last events and actions
};

/// Memory, as an operator new of the program's own counts and refuses it. Without one, what is promised about
/// allocations goes unchecked.
struct Memory {
    std::uint64_t allocations = 0;
    std::uint64_t refused_after = 0;  ///< so many more succeed, less one; 0: all
};
inline Memory memory;

/// One supervisor, from its first event to its end, on a scripted kernel and a virtual clock. The seed decides
/// everything: programs, schedule, how often what goes wrong. Ends early after `most_steps`.
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
