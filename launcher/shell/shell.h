#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <sys/signalfd.h>

#include "launcher/control/control_backend.h"
#include "launcher/control/control_server.h"
#include "launcher/output/console.h"
#include "launcher/output/output_capture.h"
#include "launcher/plan/configuration_source.h"
#include "launcher/plan/launch_options.h"
#include "launcher/services/agent_link.h"
#include "launcher/services/network_probes.h"
#include "launcher/services/notify.h"
#include "launcher/services/notify_receiver.h"
#include "launcher/services/schedules.h"
#include "launcher/services/sockets.h"
#include "launcher/shell/process_setup.h"
#include "launcher/shell/report.h"
#include "launcher/supervisor/supervisor.h"
#include "launcher/upgrade/upgrade_state.h"
#include "lib/base/event_loop.h"
#include "lib/base/path_watcher.h"
#include "lib/log/log.h"
#include "lib/process/cgroup.h"
#include "lib/process/command_runner.h"
#include "lib/process/spawn.h"

namespace triton::launcher {

/// Launch mode: the shell around the Supervisor. It turns what the kernel says into events, and actions into system
/// calls. Everything that has an effect comes before everything that only tells of it.
///
/// shell.cpp has the loop, shell_actions.cpp what is done, shell_configuration.cpp what is loaded, shell_control.cpp
/// what the control socket asks, shell_agent.cpp what the agent does and asks for, shell_upgrade.cpp how another
/// version takes over.
class Shell final : private ControlBackend {
public:
    /// All of it outlives this.
    Shell(LaunchOptions const& options, char const* const* environment, ProcessSetup setup, EventLoop& loop);

    /// Runs until the container ends. Returns the exit code. Errors: what keeps it from starting at all.
    Result<int> run();
    /// The same, with the processes of the launcher that has executed us.
    Result<int> take_over(UpgradeState state);

private:
    /// What is kept for each program, by ProgramId.
    struct Runtime {
        /// What is kept for each process of a program that needs it.
        struct Instance {
            std::optional<process::Cgroup> cgroup;
            std::uint64_t oom_kills = 0;  // in that group, so far
            bool was_oom_killed = false;  // its latest end
            std::string status;           // STATUS= of sd_notify(3)
        };
        std::string name;
        std::shared_ptr<ProgramPlan const> plan;  // the latest accepted; null: the id is free
        std::vector<int> listen;                  // borrowed from sockets_
        std::vector<Instance> instances;          // by number; only where something is kept
        std::vector<std::string> versions;        // that its processes run; the last one is configured
        std::vector<std::uint8_t> runs;           // by number: which of them
        bool is_configured = false;
        bool is_captured = false;
    };

    // events in: shell.cpp
    void dispatch(Event const& event);
    void catch_up();
    void take_signals();
    void take_signal(signalfd_siginfo const& info);
    void reap();
    void reaped(pid_t pid, int status);
    [[nodiscard]] std::optional<pid_t> next_dead(int& status);
    void arm_helpers() { helpers_timer_.arm(helpers_.next_deadline()); }
    void arm_probes() { probes_timer_.arm(probes_.next_deadline()); }
    void arm_schedules();
    void settle();
    Result<> start_loop();
    void run_loop();
    void end_round();
    void tell_records();
    void tell_start();
    void tell_error(char const* what) noexcept;
    void tell_manager();
    int shut_down();
    void stop(int signo);
    void forget_files();
    void hang_up();
    void settle_soon();

    // actions out: shell_actions.cpp
    void perform(Action const& action);
    void perform(Effect const& effect);
    void perform(Report const& report);
    void on(action::Spawn const& action);
    void on(action::Signal const& action);
    void send(action::Signal const& action);
    void on(action::RunHelper const& action);
    void on(action::CancelHelper const& action);
    void on(action::Sweep const& action);
    void on(action::Finish const& action);
    std::expected<Pid, process::SpawnError> spawn(ProcessId id, Runtime& program);
    static Runtime::Instance& instance(ProcessId id, Runtime& program);
    [[nodiscard]] Runtime::Instance const* find_instance(ProcessId id) const;
    Result<UniqueFd> prepare_group(ProcessId id, Runtime& program);
    void process_ended(ProcessId id, Runtime& program);
    bool has_died_of_memory(ProcessId id, Runtime& program);
    void kill_leftovers(pid_t pid);
    void helper_ended(process::CommandRunner::Key key, process::CommandRunner::Outcome const& outcome);
    [[nodiscard]] bool may_notify(NotifyKey key, NotifySender sender) const;
    void notified(NotifyKey key, Notification const& notification);
    [[nodiscard]] int null_device();

    // configuration: shell_configuration.cpp
    [[nodiscard]] Result<std::string> read_configuration() const;
    bool load();
    using Plans = std::vector<std::shared_ptr<ProgramPlan const>>;
    Result<> activate(std::optional<Accepted> accepted);
    [[nodiscard]] Plans plans_for(Accepted const* accepted) const;
    Result<> open_what_is_shared(Plans const& plans, std::vector<ProgramId> const& ids);
    [[nodiscard]] Result<> check_cgroups(Plans const& plans) const;
    static Result<> check_files(Plans const& plans);
    using Specs = std::shared_ptr<std::vector<ProgramSpec> const>;
    [[nodiscard]] Specs specs_for(Plans const& plans, std::vector<ProgramId> const& ids) const;
    void make_room_for(std::vector<ProgramSpec> const& specs);
    void take(Runtime& program, std::shared_ptr<ProgramPlan const> plan);
    static constexpr std::size_t most_versions = 200;
    static void remember_version(Runtime& program);
    void forget_rejection();
    void restore_output(ProgramId id);
    void open_cgroups();
    [[nodiscard]] std::vector<ProgramId> choose_ids(Plans const& plans) const;
    [[nodiscard]] bool says_the_same(Accepted const& loaded) const;
    void tell_active();
    void remember_acceptance();
    void reject(Rejected rejected);
    [[nodiscard]] bool may_labels_come(Rejected const& rejected) const;
    void wait_for_labels();
    void look_again();
    Result<> watch_files();
    void ask_for_reload();
    void files_changed();
    void open_channels();
    [[nodiscard]] std::string notify_directory() const;
    static void apply_limits(Runtime& program);
    void list_programs(std::vector<ProgramId> const& ids);
    void set_schedules(std::vector<ProgramId> const& ids);
    [[nodiscard]] std::vector<ProgramId> configured_ids() const;
    void tidy();
    [[nodiscard]] ProgramName name_of(ProgramId id) const;

    // the control socket: shell_control.cpp
    void tell_output(std::uint32_t program, LogChunk const& chunk);
    void open_control(std::optional<ControlSocket> adopted);
    void open_control_for_agent();
    [[nodiscard]] LauncherStatus launcher() const override;
    [[nodiscard]] std::size_t program_count() const override;
    [[nodiscard]] std::optional<std::size_t> find_program(std::string_view name) const override;
    [[nodiscard]] ProgramStatus program(std::size_t index) const override;
    [[nodiscard]] ProgramDescription describe(std::size_t index) const override;
    [[nodiscard]] ProcessStatus process(std::size_t program, std::uint32_t number) const override;
    [[nodiscard]] ProcessUsage usage(std::size_t program, std::uint32_t number) const override;
    Result<> start(ProcessSelection const& which) override;
    Result<> stop(ProcessSelection const& which) override;
    Result<> restart(ProcessSelection const& which) override;
    Result<> signal(ProcessSelection const& which, int signo) override;
    Result<> reload() override;
    Result<> upgrade(std::string const& path) override;
    Result<> output_lines(ProcessSelection const& which, OutputLineSink& sink) const override;
    void command_given(std::string_view command, ControlPeer const& peer) override;
    void control_failed(std::string_view reason) override;
    Result<> command(event::Verb verb, ProcessSelection const& which, int signo = 0);

    // the agent, and what it asks for: shell_agent.cpp
    /// One staging that somebody waits for, with what it has printed.
    struct Staging {
        process::CommandRunner::Key key = 0;
        std::uint64_t ticket = 0;
        UniqueFd summary;
    };
    // Keys of helper commands that belong to no process: from here on.
    static constexpr process::CommandRunner::Key upgrade_key = UINT64_MAX;
    static constexpr std::size_t most_stagings = 4;
    static constexpr process::CommandRunner::Key first_own_key = upgrade_key - most_stagings;
    Result<> prepare_agent();
    [[nodiscard]] bool is_agent(ProgramPlan const& plan) const { return &plan == agent_plan_.get(); }
    void agent_connected(UniqueFd connection);
    void hand_over_to_agent(Runtime& program);
    [[nodiscard]] Result<std::shared_ptr<process::StartPlan const>> own_program(std::vector<std::string> const& words,
                                                                                std::string path = {}) const;
    Result<pid_t> start_staging(StagingKind what, Staging& staging);
    void staging_ended(process::CommandRunner::Key key, process::CommandRunner::Outcome const& outcome);
    void run_network_probe(process::CommandRunner::Key key, HelperPlan const& helper, ProcessNumber number);
    void activate_again();
    bool begin_linger();
    Result<> stage(StagingKind what, std::uint64_t ticket) override;
    [[nodiscard]] ActiveConfiguration active_configuration() const override;
    void set_pod(PodState state) override;
    void set_reporter(ReporterStatus status) override;
    [[nodiscard]] std::optional<ReporterStatus> reporter_status() const;
    [[nodiscard]] std::optional<std::string> why_nothing_is_to_run(ProgramId id) const;
    void probes_wanted(bool is_wanted) override;
    void probe_result(std::uint64_t id, bool ok, std::string_view detail) override;

    // becoming another version: shell_upgrade.cpp
    /// First a child of the new version says whether it can go on from our state, then we become it.
    struct Upgrade {
        std::string path;
        std::string version;  // of the new one, once it has answered
        UniqueFd answer;      // of the check
        bool is_checked = false;
        TimePoint give_up_at{};
    };
    Result<> check_successor();
    void successor_answered(process::CommandRunner::Outcome const& outcome);
    void try_upgrade();
    void become_successor();
    void give_up_upgrade(Error error);
    UpgradeState upgrade_state();
    void restore_programs(UpgradeState const& state);
    void restore_agent(UpgradeState const& state);
    void restore_versions(UpgradeState const& state);
    void capture_again(std::uint32_t at, Runtime const& program);
    [[nodiscard]] SupervisorPolicy supervisor_policy() const;
    static std::shared_ptr<ProgramPlan const> plan_without_start(UpgradeState::Program const& program,
                                                                 ProgramPolicy const& policy);

    LaunchOptions const& options_;
    char const* const* environment_;
    ProcessSetup setup_;
    EventLoop& loop_;
    Console console_;
    log::Log log_;
    Notifier notifier_;
    Supervisor supervisor_;
    process::Spawner spawner_;
    std::vector<Runtime> programs_;
    Reporter reporter_;

    EventLoop::Watch signal_watch_;
    std::optional<PathWatcher> path_watcher_;
    EventLoop::Watch file_watch_;  // after what it watches, to be dropped before it
    SocketTable sockets_;
    std::optional<process::CgroupTree> cgroups_;
    std::unique_ptr<OutputCapture> output_;
    std::unique_ptr<NotifyReceiver> notify_;
    std::unique_ptr<Schedules> schedules_;
    std::unique_ptr<ControlServer> control_;
    process::CommandRunner helpers_;
    UniqueFd null_device_;

    // the agent
    std::shared_ptr<ProgramPlan const> agent_plan_;  // null: there is none
    std::unique_ptr<AgentLink> agent_link_;
    UniqueFd agent_output_;
    UniqueFd agent_program_;
    NetworkProbes probes_;
    std::vector<Staging> stagings_;
    PodState pod_;
    std::optional<ReporterStatus> reporter_status_;

    // configuration
    std::optional<Accepted> active_;
    Plans plans_;  // of active_, and the agent's
    std::uint64_t configuration_sequence_ = 0;
    std::uint64_t configuration_changes_ = 0;
    std::int64_t configuration_time_ = 0;  // microseconds since 1970
    std::vector<ProgramId> shown_;         // what there is to tell of, in the document's order
    std::vector<std::string> rejection_;   // the latest, so that the same one is told once
    std::size_t rejected_text_ = 0;        // its document's hash
    std::int64_t rejection_time_ = 0;      // microseconds since 1970
    bool is_pod_known_ = false;            // the agent has told of it
    bool waits_for_labels_ = false;        // it is told that we do
    std::vector<std::string> missing_binaries_;
    TimePoint burst_began_{};
    TimePoint last_reload_{};
    std::string cgroup_error_;  // why there is no cgroups_
    SourceOptions source_;      // the options', and what this machine adds
    bool is_reloaded_ = false;
    bool is_blind_ = false;  // changes of files go unseen
    bool has_looked_for_cgroups_ = false;
    bool has_tree_killers_ = false;  // some program's leftovers are killed when its process is reaped

    // processes
    using Processes = std::unordered_map<pid_t, ProcessId>;
    Processes processes_;
    std::vector<Processes::node_type> spare_nodes_;  // so that a restart allocates nothing
    std::vector<Event> events_;
    std::size_t next_event_ = 0;
    std::vector<Action> actions_;
    std::size_t next_action_ = 0;
    std::vector<Told> reports_;
    std::optional<process::SpawnError>
        helper_error_;  // why the helper that has ended now was not started; taken by who tells it
    bool is_dispatching_ = false;

    // the end, and what to tell
    std::optional<TimePoint> stay_until_;  // all that end meanwhile have the container stay for so long
    int stop_requests_ = 0;
    bool is_forced_ = false;  // the stop itself cannot get on
    bool has_forgotten_files_ = false;
    std::uint32_t told_running_ = 0;
    bool told_ready_ = false;
    bool told_stopping_ = false;
    bool tells_records_ = false;  // to subscribers of the control socket
    bool reboots_ = false;
    int exit_code_ = 0;
    TimePoint began_{};
    std::optional<Upgrade> upgrade_;

    // deadlines
    EventLoop::Timer decide_timer_;  // of the supervisor
    EventLoop::Timer helpers_timer_;
    EventLoop::Timer probes_timer_;
    EventLoop::Timer schedules_timer_;
    EventLoop::Timer control_timer_;
    EventLoop::Timer reload_timer_;
    EventLoop::Timer settle_timer_;
    EventLoop::Timer upgrade_timer_;
    EventLoop::Timer retry_timer_;   // of what an exception has interrupted
    EventLoop::Timer linger_timer_;  // armed: all have ended, and the pod wants to stay for a while
};

/// What `upgrade-check` answers: one line that the version which runs knows, or why it cannot be.
struct UpgradeCheck {
    std::string output;
    int exit_code = 0;
};
/// Whether this version can go on from that state, with these options. `text`: see write_upgrade_state().
UpgradeCheck check_upgrade(std::string_view text, LaunchOptions const& options, char const* const* environment);

}  // namespace triton::launcher
