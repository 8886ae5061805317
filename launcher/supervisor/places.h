#pragma once

#include "launcher/supervisor/supervisor.h"

// What several files of the supervisor share: how it gets at its processes.

namespace triton::launcher {

inline bool Supervisor::is_down(Program const& program) {
    return program.in_state[static_cast<std::size_t>(State::down)] == program.processes.size();
}

/// Of ProcessRecord::stop_step: SIGKILL is next, however many the policy has.
inline constexpr std::uint8_t last_step = 255;

inline Supervisor::Place Supervisor::place(ProcessId id) {
    Program& program = programs_[index(id.program)];
    return {program, program.processes[index(id.number)], id};
}

template <class Call>
void Supervisor::for_each(Program& program, Call call) {
    ProgramId const id{static_cast<std::uint32_t>(&program - programs_.data())};
    for (std::size_t at = 0; at < program.processes.size(); ++at)
        call(Place{program, program.processes[at], {id, ProcessNumber{static_cast<std::uint32_t>(at + 1)}}});
}

template <class Call>
void Supervisor::for_each(Call call) {
    for (Program& program : programs_)
        for_each(program, call);
}

template <class Call>
void Supervisor::for_each_used(Program const& program, Call call) {
    if (!program.is_configured && is_down(program)) return;
    for (auto const* const list : {&program.policy->after, &program.policy->requires_}) {
        for (ProgramId const id : *list) {
            // What is on its way out names what has gone before, too, whose id another one may have by now.
            Program& used = programs_[index(id)];
            if (is_auxiliary(used) == is_auxiliary(program)) call(used);
        }
    }
}

inline bool Supervisor::is_wanted(Place const& at) const {
    return phase_ == Phase::running && index(at.id.number) < at.program.count;
}

/// So long from now; never, where time ends before.
inline TimePoint Supervisor::in(Duration duration) const { return duration < never - now_ ? now_ + duration : never; }

}  // namespace triton::launcher
