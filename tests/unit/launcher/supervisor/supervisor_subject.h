#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/supervisor/supervisor.h"
#include "tests/simulation/action.h"
#include "tests/simulation/text.h"

namespace triton::launcher {

inline constexpr ProcessId first{};  ///< process 1 of the unnamed program

constexpr ProcessId process(std::uint32_t number) { return {ProgramId{0}, ProcessNumber{number}}; }
constexpr ProcessId process(std::uint32_t program, std::uint32_t number) {
    return {ProgramId{program}, ProcessNumber{number}};
}

/// All the policies that one configuration gives.
struct Policies {
    SupervisorPolicy whole;
    ProgramPolicy program;
};

/// One supervisor, its clock, and what it wanted done last.
class Subject {
public:
    explicit Subject(Policies const& all) : supervisor(all.whole), policies(all) {}

    Subject& on(Event const& event) {
        actions.clear();
        supervisor.handle(event, now, actions);
        return *this;
    }
    Subject& after(Duration passed) {
        now += passed;
        return *this;
    }
    /// The design's form: so many processes of the one program.
    Subject& configuration(std::uint32_t count) {
        policies.program.count = count;
        return programs({policies.program});
    }
    /// Program 0, 1, ...; all of them changed.
    Subject& programs(std::vector<ProgramPolicy> const& all, bool has_changed = true) {
        auto specs = std::make_shared<std::vector<ProgramSpec>>();
        for (ProgramPolicy const& policy : all)
            specs->push_back({ProgramId{static_cast<std::uint32_t>(specs->size())}, policy, has_changed});
        return on(event::ConfigurationAccepted{specs});
    }
    /// Its pid is 99 and the number, and 100 more for each program.
    Subject& cloned(ProcessId id) { return on(event::Spawned{id, pid_of(id)}); }
    Subject& executed(ProcessId id) { return on(event::Executed{id}); }
    /// Its child exists and has executed the program; `actions` are those of both events.
    Subject& spawned(ProcessId id) {
        std::vector<Action> const before = cloned(id).actions;
        executed(id).actions.insert(actions.begin(), before.begin(), before.end());
        return *this;
    }
    Subject& exited(ProcessId id, int status) { return on(event::Exited{id, status}); }
    Subject& ready(ProcessId id) { return on(event::Ready{id}); }
    Subject& helper(ProcessId id, Helper helper, bool ok = true) { return on(event::HelperEnded{id, helper, ok}); }
    Subject& time() { return on(event::TimePassed{}); }
    Subject& stop() { return on(event::StopAsked{}); }
    Subject& command(event::Verb verb, std::uint32_t program = 0, std::optional<ProcessNumber> number = {}) {
        return on(event::Command{verb, ProgramId{program}, number, 0});
    }

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
    [[nodiscard]] ProcessState state(ProcessId id = first) const { return supervisor.state(id); }

    static Pid pid_of(ProcessId id) {
        return Pid{99 + static_cast<pid_t>(id.number) + 100 * static_cast<pid_t>(id.program)};
    }

    Supervisor supervisor;
    Policies policies;
    TimePoint now{std::chrono::hours(1)};
    std::vector<Action> actions;
};

/// The defaults, without jitter.
inline Policies plain() {
    Policies policies;
    policies.program.backoff.jitter = 0;
    return policies;
}

inline Policies pid_1() {
    Policies policies = plain();
    policies.whole.is_pid_1 = true;
    return policies;
}

/// A supervisor of `count` processes that are all up, with the pids 100, 101, ...
inline Subject all_up(std::uint32_t count, Policies const& policies = plain()) {
    Subject subject(policies);
    subject.configuration(count);
    for (std::uint32_t number = 1; number <= count; ++number)
        subject.spawned(process(number));
    return subject;
}

}  // namespace triton::launcher
