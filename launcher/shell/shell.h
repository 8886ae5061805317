#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "launcher/children/children.h"
#include "launcher/children/process_setup.h"
#include "launcher/children/sys.h"
#include "launcher/output/console.h"
#include "launcher/plan/launch_options.h"
#include "launcher/rooms/agent_host.h"
#include "launcher/rooms/channels.h"
#include "launcher/rooms/configuration_keeper.h"
#include "launcher/rooms/control_port.h"
#include "launcher/rooms/file_asker.h"
#include "launcher/rooms/foreground.h"
#include "launcher/rooms/helper_commands.h"
#include "launcher/rooms/left_trees.h"
#include "launcher/rooms/life_cycle.h"
#include "launcher/rooms/pid_files.h"
#include "launcher/rooms/process_trees.h"
#include "launcher/rooms/program_table.h"
#include "launcher/rooms/programs.h"
#include "launcher/rooms/report.h"
#include "launcher/rooms/rooms.h"
#include "launcher/rooms/upgrader.h"
#include "launcher/shell/handover.h"
#include "launcher/shell/start_queue.h"
#include "launcher/supervisor/process_history.h"
#include "launcher/supervisor/supervisor.h"
#include "launcher/upgrade/upgrade_state.h"
#include "lib/base/event_loop.h"
#include "lib/log/log.h"

namespace triton::launcher {

/// Launch mode: the event pump between the rooms (rooms.h) and the Supervisor. Events go in, the
/// supervisor decides, and each action is given to the room that can perform it. Everything that has an effect comes
/// before everything that only reports it: reports wait for the end of the round.
///
/// An exception (for lack of memory, that is) interrupts a round, not the launcher: the current action is tried again
/// with the next event, and after a moment in any case.
class Shell final : private EventSink,
                    private Children::Listener,
                    private AgentHost::Listener,
                    private Programs::Owner,
                    private LifeCycle::Listener,
                    private Upgrader::Owner {
public:
    /// All but `setup` outlive this.
    Shell(LaunchOptions const& options, char const* const* environment, ProcessSetup setup, Sys& sys, EventLoop& loop);

    /// Runs until the container ends. Returns the exit code. Errors: what keeps it from starting at all.
    Result<int> run();
    /// The same, with the processes of the launcher that has executed us.
    Result<int> take_over(UpgradeState state);

private:
    // Events in.
    void dispatch(Event const& event) override;
    void make_room_for_an_end() override;
    void before_reaping(ProcessId id, pid_t pid) override { trees_.before_reaping(id, pid); }
    void process_executed(ProcessId id) override;
    void process_ended(ProcessId id, int status, std::optional<process::SpawnError> error) override;
    void take_leave(event::Exited& end);
    void command_ended(Children::Key key, Children::Outcome const& outcome) override;
    void no_child_left() override { dispatch(event::NoChildLeft{}); }
    void orphan_reaped() override;
    void probe_ended(NetworkProbes::Key key, NetworkProbes::Verdict const& verdict) override;
    void agent_connected(UniqueFd connection) override;
    void pod_told(PodState const& pod, bool have_changed) override;
    void isolation_changed() override { activate_again(); }
    void activate_again();
    void make_room(std::vector<ProgramSpec> const& specs) override;
    void expect_leftovers() override { children_.look_before_reaping(); }
    void settled() override;
    void given_away(ProgramId id) override { history_.forget(id); }
    void children_changed(pid_t pid) override;
    void continued() override { foreground_.continued(); }
    void stop_asked() override { keeper_.forget_files(); }
    void hung_up() override;
    [[nodiscard]] bool has_configuration() const override { return keeper_.active() != nullptr; }

    // Decide, then act.
    void catch_up();
    void perform(Action const& action) {
        std::visit([this](auto const& which) { perform(which); }, action);
    }
    void perform(Effect const& effect) {
        std::visit([this](auto const& which) { on(which); }, effect);
    }
    void perform(Report const& report) { reports_.emplace_back(report); }
    void on(action::Spawn const& action);
    void start(ProcessId id);
    void start_those_that_wait();
    void on(action::Signal const& action);
    void on(action::SignalRest const& action);
    void on(action::EndTree const& action);
    void on(action::RunHelper const& action) { helpers_.run(action); }
    void on(action::CancelHelper const& action) { helpers_.cancel(action); }
    void on(action::Sweep const& action);
    void on(action::Finish const& action) { life_.finish(action.exit_code); }

    // The loop.
    [[nodiscard]] StartCompanion start_of_writers();
    Result<> start_loop();
    void run_loop();
    void end_round();
    void tell_reports(bool is_stopping);
    void tell_error(char const* what) noexcept;
    int shut_down();

    // For an upgrade.
    [[nodiscard]] SupervisorPolicy supervisor_policy() const;
    UpgradeState state() override { return handover_.collect(); }
    void bring_up_to_date() override;
    std::string has_yet_to_clean_up() override { return programs_.has_yet_to_clean_up(); }
    void stop_output() override { handover_.stop_output(); }
    void resume_output() override { handover_.resume_output(); }
    void about_to_leave() override { handover_.about_to_leave(); }
    void make_room_for_what_runs();

    LaunchOptions const& options_;
    ProcessSetup setup_;
    Sys& sys_;
    EventLoop& loop_;
    SourceOptions source_;  // the options', and what this machine adds
    Console console_;
    log::Log log_;
    Supervisor supervisor_;
    std::vector<Event> events_;
    std::size_t next_event_ = 0;
    std::vector<Action> actions_;
    std::size_t next_action_ = 0;
    std::vector<Told> reports_;
    bool is_dispatching_ = false;
    EventLoop::Timer decide_timer_;  // of the supervisor
    EventLoop::Timer retry_timer_;   // of what an exception has interrupted
    EventLoop::Timer lines_timer_;   // of lines that the agent has room for
    StartQueue start_queue_;

    ControlLine line_;
    ProcessHistory history_;
    ProgramTable table_;
    ReportWriter report_writer_;
    Children children_;
    PathProbe path_probe_;
    Channels channels_;
    AgentHost agent_;
    Programs programs_;
    HelperCommands helpers_;
    ConfigurationKeeper keeper_;
    PidFiles pid_files_;
    Foreground foreground_;
    LeftTrees left_trees_;
    ProcessTrees trees_;
    LogKeeper log_file_;
    LifeCycle life_;
    Upgrader upgrader_;
    ControlPort port_;
    Handover handover_;
    bool gives_memory_back_ = false;  // at the end of this round
};

}  // namespace triton::launcher
