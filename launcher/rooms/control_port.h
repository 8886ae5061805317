#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/children/children.h"
#include "launcher/control/control_backend.h"
#include "launcher/control/control_server.h"
#include "launcher/plan/launch_options.h"
#include "launcher/rooms/agent_host.h"
#include "launcher/rooms/channels.h"
#include "launcher/rooms/configuration_keeper.h"
#include "launcher/rooms/life_cycle.h"
#include "launcher/rooms/process_trees.h"
#include "launcher/rooms/program_table.h"
#include "launcher/rooms/programs.h"
#include "launcher/rooms/rooms.h"
#include "launcher/rooms/upgrader.h"
#include "launcher/supervisor/process_history.h"
#include "lib/base/event_loop.h"
#include "lib/log/log.h"

namespace triton::launcher {

/// The room of the control socket: opens it, and answers what its clients and the agent ask by asking the other rooms.
/// It only decides what may not be asked now.
class ControlPort final : private ControlBackend {
public:
    /// Whom it asks. All outlive this.
    struct Rooms {
        Supervisor const& supervisor;
        ProgramTable const& table;
        Children const& children;
        Channels& channels;
        AgentHost& agent;
        Programs& programs;
        ConfigurationKeeper& keeper;
        LifeCycle const& life;
        Upgrader& upgrader;
        ProcessTrees& trees;
        ProcessHistory const& history;
        EventSink& events;
    };
    ControlPort(LaunchOptions const& options, EventLoop& loop, log::Log& log, ControlLine& line, Rooms const& rooms);
    /// The line is cut: no more requests.
    ~ControlPort() override;
    ControlPort(ControlPort const&) = delete;
    ControlPort& operator=(ControlPort const&) = delete;

    /// After the processes have been started: nothing waits for it, and a container without a place for it also runs.
    void open(std::optional<varlink::HandedSocket> adopted);
    /// The agent comes another way, and needs no socket of a name.
    void open_for_agent();
    /// Answers calls that have waited.
    void end_round();
    /// After what may have kept a round from its end.
    void arm();

    // For an upgrade.
    void save(UpgradeState& state) const;

private:
    [[nodiscard]] std::optional<ProcessId> process_of(pid_t pid) const;
    [[nodiscard]] ProcessOwner owner_of(ProgramTable::Entry const& program) const;
    [[nodiscard]] ProcessId selected(ProcessSelection const& which) const {
        return {rooms_.table.shown()[which.program], ProcessNumber{which.number.value_or(1)}};
    }
    [[nodiscard]] LauncherStatus launcher() const override;
    [[nodiscard]] std::size_t program_count() const override { return rooms_.table.shown().size(); }
    [[nodiscard]] std::optional<std::size_t> find_program(std::string_view name) const override;
    [[nodiscard]] ProgramStatus program(std::size_t index) const override;
    [[nodiscard]] ProgramDescription describe(std::size_t index) const override;
    [[nodiscard]] ProcessStatus process(std::size_t program, std::uint32_t number) const override;
    [[nodiscard]] ProcessPast past(std::size_t program, std::uint32_t number) const override;
    [[nodiscard]] ProcessUsage usage(std::size_t program, std::uint32_t number) const override;
    [[nodiscard]] Leftovers leftovers(std::size_t program, std::uint32_t number) override {
        return rooms_.trees.leftovers({rooms_.table.shown()[program], ProcessNumber{number}});
    }
    [[nodiscard]] std::vector<std::string> missing_for(std::size_t index) const override;
    [[nodiscard]] std::vector<std::string> held_up_by(std::size_t index) const override;
    [[nodiscard]] std::vector<std::string> running_on(std::size_t index) const override;
    Result<> start(ProcessSelection const& which) override;
    Result<> stop(ProcessSelection const& which) override { return command(event::Verb::stop, which); }
    Result<> restart(ProcessSelection const& which) override;
    Result<> signal(ProcessSelection const& which, int signo) override;
    Result<Reloaded> reload() override;
    Result<> upgrade(std::string const& path) override { return rooms_.upgrader.begin(path); }
    Result<> stage(StagingKind what, std::uint64_t ticket) override { return rooms_.agent.stage(what, ticket); }
    Result<KeptLines> output_lines(ProcessSelection const& which, OutputLineSink& sink) const override;
    Result<> check_attachment(ProcessSelection const& which, bool follows) override {
        return rooms_.channels.check_attachment(selected(which), follows);
    }
    void attach(Attachment const& attachment, UniqueFd connection) override {
        rooms_.channels.attach(selected(attachment.which), attachment.lines,
                               {std::move(connection), !attachment.is_read_only, attachment.follows});
    }
    [[nodiscard]] ActiveConfiguration active_configuration() const override { return rooms_.keeper.ledger().state(); }
    void set_pod(PodState state) override { rooms_.agent.set_pod(std::move(state)); }
    void set_reporter(ReporterStatus status) override { rooms_.agent.set_reporter(std::move(status)); }
    void probes_wanted(bool is_wanted) override { rooms_.agent.probes_wanted(is_wanted); }
    void probe_result(std::uint64_t id, bool ok, std::string_view detail) override {
        rooms_.agent.probe_result(id, ok, detail);
    }
    void command_given(std::string_view command, varlink::Peer const& peer) override;
    [[nodiscard]] ProcessOwner owner_of(pid_t pid) const override;
    [[nodiscard]] bool has_strangers() const override;
    [[nodiscard]] bool has_sandboxes() const override;
    void control_failed(std::string_view reason) override;

    [[nodiscard]] LastExit exit_of(ProcessId id, process::SpawnError const& error) const;
    void serve(std::unique_ptr<ControlServer> server);
    [[nodiscard]] varlink::Closer closer();
    void tell_records();
    [[nodiscard]] bool is_stopping() const { return rooms_.supervisor.phase() != SupervisorPhase::running; }
    [[nodiscard]] bool agent_runs() const;
    [[nodiscard]] std::vector<std::string> reached_and_stuck(std::size_t index, bool to_wait) const;
    [[nodiscard]] std::optional<std::string> why_nothing_is_to_run(ProgramId id) const;
    [[nodiscard]] std::optional<std::string> why_beyond_reach(ProcessSelection const& which) const;
    Result<> command(event::Verb verb, ProcessSelection const& which, int signo = 0);

    LaunchOptions const& options_;
    EventLoop& loop_;
    log::Log& log_;
    ControlLine& line_;
    Rooms rooms_;
    EventLoop::Timer timer_;      // of the server
    EventLoop::Timer again_;      // there was no room for the socket
    bool tells_records_ = false;  // to subscribers
};

}  // namespace triton::launcher
