#include "launcher/shell/handover.h"

#include <utility>
#include <vector>

#include "launcher/plan/version.h"
#include "launcher/upgrade/compiled_filters.h"

namespace triton::launcher {

void Handover::stop_output() {
    rooms_.keeper.stop_looking();  // the successor would not know the helper, and reads the configuration anyway
    if (OutputCapture* const output = rooms_.channels.output()) output->stop_reading();
}

void Handover::resume_output() {
    if (OutputCapture* const output = rooms_.channels.output()) output->resume_reading();
    rooms_.keeper.go_on_looking();
}

void Handover::about_to_leave() {
    rooms_.channels.send_attached_away();
    if (OutputCapture* const output = rooms_.channels.output()) output->tell_waiting_as_lost();
}

template <class Use>
void Handover::for_each_process(SupervisorState const& state, Use use) const {
    for (std::size_t at = 0; at < state.programs.size(); ++at) {
        ProgramId const program{static_cast<std::uint32_t>(at)};
        for (std::uint32_t number = 1; number <= state.programs[at].processes.size(); ++number) {
            ProcessId const id{program, ProcessNumber{number}};
            if (auto const pid = rooms_.supervisor.view(id).pid) use(id, *pid);
        }
    }
}

UpgradeState Handover::collect() const {
    UpgradeState state;
    state.version = version();
    state.pid = rooms_.sys.own_pid();
    state.supervisor = rooms_.supervisor.state();
    // A configuration that was refused later on has left room for more.
    if (state.supervisor.programs.size() > rooms_.table.size()) state.supervisor.programs.resize(rooms_.table.size());
    for_each_process(state.supervisor, [this, &state](ProcessId, Pid pid) {
        state.marks.push_back(rooms_.children.mark_of(static_cast<pid_t>(pid)));
    });
    for (process::CommandRunner::Running const& running : rooms_.children.commands()) {
        if (running.key < first_own_key) state.helpers.push_back(running);
    }
    state.companions = rooms_.children.companions();
    state.inherited_mask = rooms_.setup.inherited.mask;
    state.sigchld_was_ignored = rooms_.setup.inherited.sigchld_was_ignored;
    state.descriptor_limit = rooms_.source.descriptor_limit;
    rooms_.table.save(state);
    rooms_.channels.save(state);
    rooms_.agent.save(state);
    rooms_.programs.save(state);
    rooms_.keeper.save(state);
    rooms_.pid_files.save(state);
    rooms_.left_trees.save(state);
    rooms_.children.for_each_hunt([&state](std::uint64_t mark, ProcessId id) {
        state.hunts.push_back({static_cast<std::uint32_t>(id.program), static_cast<std::uint32_t>(id.number), mark});
    });
    rooms_.log_file.save(state);
    rooms_.life.save(state);
    rooms_.port.save(state);
    rooms_.helpers.save(state);
    state.history.ends = rooms_.history.ends();
    state.history.results = rooms_.history.results();
    return state;
}

void Handover::restore(SupervisorPolicy const& policy, UpgradeState& state) {
    rooms_.source.descriptor_limit = state.descriptor_limit;
    rooms_.source.variables = state.pod.variables;
    rooms_.supervisor = Supervisor(policy, state.supervisor);
    rooms_.channels.restore_groups(state);
    rooms_.agent.restore_pod(state);
    // Until the plans have them, so that none is compiled here.
    std::vector<process::SeccompFilter> const filters = take_compiled_filters(state);
    rooms_.keeper.restore(state);
    rooms_.programs.restore(state, rooms_.keeper.active());
    adopt_processes(state);
    rooms_.pid_files.restore(state);
    rooms_.channels.restore(state);
    rooms_.left_trees.restore(state);
    rooms_.children.adopt(std::move(state.helpers));
    rooms_.helpers.restore(state);
    rooms_.history.restore(std::move(state.history.ends), std::move(state.history.results));
    rooms_.children.adopt_companions(std::move(state.companions));
    for (UpgradeState::Hunt const& hunt : state.hunts)
        (void)rooms_.children.end_marked(hunt.mark, {ProgramId{hunt.program}, ProcessNumber{hunt.number}});
    rooms_.agent.restore_probes(state);
    rooms_.programs.restore_schedules(state, rooms_.keeper.active());
    rooms_.life.restore(state);
}

void Handover::adopt_processes(UpgradeState const& state) {
    std::size_t at = 0;
    for_each_process(state.supervisor, [&](ProcessId id, Pid pid) {
        auto const mark = at < state.marks.size() ? std::optional(state.marks[at]) : std::nullopt;
        ++at;
        rooms_.children.adopt(id, pid, mark);
        auto const& plan = rooms_.table[id.program].plan;
        if (plan && plan->start && plan->start->attributes().is_foreground)
            rooms_.foreground.started(id, static_cast<pid_t>(pid));
    });
}

}  // namespace triton::launcher
