#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/supervisor.h"
#include "tests/simulation/text.h"

namespace triton::launcher {

inline constexpr ProcessNumber first{1};

/// One supervisor, its clock, and what it wanted done last.
class Subject {
public:
    explicit Subject(SupervisorPolicy const& policy) : supervisor(policy) {}

    Subject& on(Event const& event) {
        actions.clear();
        supervisor.handle(event, now, actions);
        return *this;
    }
    Subject& after(Duration passed) {
        now += passed;
        return *this;
    }
    Subject& configuration(std::uint32_t count) { return on(event::ConfigurationAccepted{count}); }
    Subject& spawned(ProcessNumber number) { return on(event::Spawned{number, Pid{99 + static_cast<pid_t>(number)}}); }
    Subject& exited(ProcessNumber number, int status) { return on(event::Exited{number, status, std::nullopt}); }
    Subject& time() { return on(event::TimePassed{}); }
    Subject& stop() { return on(event::StopAsked{}); }

    [[nodiscard]] std::string done() const {
        std::string all;
        for (Action const& action : actions)
            all += (all.empty() ? "" : "; ") + simulation::text(action);
        return all;
    }
    [[nodiscard]] std::optional<Duration> deadline() const {
        auto const deadline = supervisor.next_deadline();
        if (!deadline) return std::nullopt;
        return *deadline - now;
    }

    Supervisor supervisor;
    TimePoint now{std::chrono::hours(1)};
    std::vector<Action> actions;
};

/// The defaults, without jitter.
inline SupervisorPolicy plain() {
    SupervisorPolicy policy;
    policy.restart.jitter = 0;
    return policy;
}

inline SupervisorPolicy pid_1() {
    SupervisorPolicy policy = plain();
    policy.is_pid_1 = true;
    return policy;
}

/// A supervisor of `count` processes that are all up, with the pids 100, 101, ...
inline Subject all_up(std::uint32_t count, SupervisorPolicy const& policy = plain()) {
    Subject subject(policy);
    subject.configuration(count);
    for (std::uint32_t number = 1; number <= count; ++number)
        subject.spawned(ProcessNumber{number});
    return subject;
}

}  // namespace triton::launcher
