#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/children/sys.h"
#include "launcher/output/console.h"
#include "launcher/output/line_watches.h"
#include "launcher/output/output_capture.h"
#include "launcher/output/syslog_relay.h"
#include "launcher/plan/launch_options.h"
#include "launcher/rooms/file_asker.h"
#include "launcher/rooms/program_table.h"
#include "launcher/rooms/rooms.h"
#include "launcher/services/links.h"
#include "launcher/services/notify_receiver.h"
#include "launcher/services/sockets.h"
#include "launcher/terminal/attachments.h"
#include "lib/base/event_loop.h"
#include "lib/log/log.h"
#include "lib/process/cgroup.h"
#include "lib/process/quarantine.h"
#include "lib/process/spawn.h"

namespace triton::launcher {

/// The room of what programs are given, and speak through: standard input and captured output, notify socket or pipe,
/// control group, listening sockets. A plan says which of them a process needs (ProgramPlan::needs); here they are
/// opened, when a configuration is accepted or at the process's first start.
class Channels : private OutputCapture::TerminalReader {
public:
    /// All outlive this.
    Channels(LaunchOptions const& options, Sys& sys, EventLoop& loop, Console& console, log::Log& log,
             ProgramTable& table, Supervisor const& supervisor, EventSink& events, ControlLine const& line);

    // Before a configuration is accepted.

    /// Looks, once, for a tree of control groups: before the first process of a named program, since it has to be empty
    /// except for us.
    void open_groups();
    /// Why there are none; empty: there are.
    [[nodiscard]] std::string const& groups_error() const { return groups_error_; }
    [[nodiscard]] bool has_groups() const { return groups_.has_value(); }
    /// Opens the output and readiness of named programs, once.
    void open();
    /// Takes everything that programs share and that may be refused. On an error, what was opened is closed again,
    /// and changes are put back to what `current` says. Errors: one line.
    Result<> prepare(Plans const& wanted, std::vector<ProgramId> const& ids, Plans const& current);
    /// For the agent, which shares its sockets with none. Errors: see SocketTable::open().
    Result<> open_sockets(std::vector<SocketRequest> const& wanted) { return sockets_.open(wanted); }
    void close_sockets_but(Plans const& plans);
    [[nodiscard]] std::vector<int> listening(ProgramPlan const& plan) const;
    /// Running processes also get the new limits; a failure is logged, and tried again at the next start.
    void apply_limits(ProgramTable::Entry& program);

    /// Whether a process is one that a program which forks has started: as it may not be known yet, each of them speaks
    /// for it.
    void set_owner_of_forks(std::function<bool(ProcessId, pid_t)> is_own) { is_own_ = std::move(is_own); }

    /// What goes before PID 1 touches a path of others that no configuration has just been looked at for.
    void set_path_probe(PathProbe& probe);

    /// What starts the writers of log files on file systems that may hang: Children::start_companion().
    void set_start_of_writers(StartCompanion start) { start_companion_ = std::move(start); }

    // For each process.

    /// What a start gives its process; lives until the start is done.
    struct Hands {
        process::StartFiles files;
        UniqueFd ready;
        UniqueFd group;
    };
    std::expected<Hands, process::SpawnError> for_start(ProcessId id);
    /// Nobody has been started with it, or not all of it could be had.
    void start_failed(ProcessId id);
    /// The same for a helper command of the process. Errors: those of pipe2(2).
    Result<Hands> for_command(ProcessId id, Helper helper);
    /// A helper command has ended, or was killed: so is what it has left in its group.
    void command_ended(ProcessId id, Helper helper);
    /// It was reaped, `status` as wait(2) has it. Its last messages come before its end.
    void process_ended(ProcessId id, int status);
    /// Whether the OOM killer has ended something in its group since it was started.
    bool has_died_of_memory(ProcessId id);
    /// Kills all processes in its group.
    void kill_group(ProcessId id);
    /// Whether somebody is in its group.
    [[nodiscard]] bool has_group_members(ProcessId id) const;
    /// Whether this process is in its group.
    [[nodiscard]] bool is_in_group(ProcessId id, pid_t pid) const;
    /// Whether a process is in its group. Where the kernel does not say, none is.
    [[nodiscard]] bool is_group_populated(ProcessId id) const;
    /// To its group, if it has one; `leader`: this process. One that comes into being meanwhile may be missed.
    process::SignalledGroup signal_group(ProcessId id, pid_t pid, int signo);
    /// The number is no longer wanted.
    void close(ProcessId id);
    /// The program no longer exists.
    void forget(ProgramId id);
    /// Called when the container ends: a program whose writers have all ended finds the end of its input.
    void end_inputs();

    /// Opens the files of output again (SIGHUP), also those that could not be opened after an upgrade.
    void reopen_files();

    // For who wants to sit at a terminal.
    /// Whether somebody can be attached to it. Errors: refused when the process has no terminal, or none now and nobody
    /// wants to wait for the next one; busy.
    Result<> check_attachment(ProcessId id, bool follows);
    /// Connects a client, which first sees the last lines. It has been checked.
    void attach(ProcessId id, std::uint32_t lines, Attachments::Client client);
    /// Another version of us takes over: clients are told to come again.
    void send_attached_away();

    // What else there is to ask.
    [[nodiscard]] OutputCapture* output() const { return output_.get(); }
    /// Null before open().
    [[nodiscard]] LineWatches* lines() const { return lines_.get(); }
    /// Where descriptors go that others have sent.
    [[nodiscard]] process::Quarantine& quarantine() { return quarantine_; }
    [[nodiscard]] SyslogRelay& syslog_relay() { return syslog_relay_; }

    // For an upgrade.
    void save(UpgradeState& state) const;
    /// Before the programs are restored.
    void restore_groups(UpgradeState const& state);
    void restore_sockets(UpgradeState const& state) {
        sockets_.import_state(state.sockets);
        (void)links_.import_state(state.links);  // one that nobody empties fills up, as before its reader had gone
        (void)syslog_relay_.adopt(state.syslog_relay);  // without a watch it is deaf, and lines pass
    }
    /// Before that of the programs whose files they write.
    void restore_writers(UpgradeState const& state);
    /// If its file can no longer be opened, standard output takes its output: without a reader it would die.
    void capture_again(ProgramId id);
    void restore_instances(UpgradeState const& state);
    /// After that.
    void restore(UpgradeState& state);

private:
    [[nodiscard]] Result<> check_groups(Plans const& plans) const;
    [[nodiscard]] Result<> check_pid_files(Plans const& plans) const;
    Result<> check_null_device(Plans const& plans);
    void restore_output(std::uint32_t program, std::optional<OutputCapture::Settings> const& before);
    void abandon_link(std::string const& reader);
    [[nodiscard]] Result<> add_link(ProgramPlan const& plan, process::StartFiles& files);
    Result<> add_readiness(ProcessId id, ProgramPlan const& plan, Hands& hands);
    Result<UniqueFd> prepare_group(ProcessId id, ProgramTable::Entry& program);
    void tell_output(std::uint32_t program, LogChunk const& chunk);
    void tell_missed(OutputKey key);
    void drop_former_output(ProcessId id);
    [[nodiscard]] bool may_notify(NotifyKey key, NotifySender sender) const;
    [[nodiscard]] bool is_only_program_of(ProgramId program, uid_t user) const;
    void notified(NotifyKey key, Notification const& notification);
    [[nodiscard]] std::string notify_directory() const;
    [[nodiscard]] Result<int> null_device();
    [[nodiscard]] Result<int> empty_input();
    Result<OutputCapture::WriteEnds> captured_ends(ProcessId id, ProgramPlan const& plan);
    [[nodiscard]] Result<> check_terminals(Plans const& plans) const;
    Result<> open_terminal(ProcessId id, ProgramPlan const& plan, process::StartFiles& files);
    [[nodiscard]] std::string last_lines(OutputKey key, std::uint32_t lines) const;
    [[nodiscard]] std::string first_view(OutputKey key, std::uint32_t lines) const;
    void shown(OutputKey key, std::string_view bytes) override;
    [[nodiscard]] bool is_to_wait(OutputKey key) const override;
    void keep_reading(std::uint32_t program);
    static void give_to_user(OutputCapture::WriteEnds const& ends, ProgramPlan const& plan);

    LaunchOptions const& options_;
    Sys& sys_;
    EventLoop& loop_;
    process::Quarantine quarantine_{loop_};
    Console& console_;
    log::Log& log_;
    ProgramTable& table_;
    Supervisor const& supervisor_;
    EventSink& events_;
    ControlLine const& line_;
    SocketTable sockets_;
    Links links_{loop_};
    std::optional<process::CgroupTree> groups_;
    std::string groups_error_;
    std::function<bool(ProcessId, pid_t)> is_own_;
    StartCompanion start_companion_;
    PathProbe* path_probe_ = nullptr;
    bool has_looked_for_groups_ = false;
    SyslogRelay syslog_relay_;
    std::unique_ptr<OutputCapture> output_;
    std::vector<ProgramId> without_file_;       // programs whose file could not be opened after an upgrade
    std::unique_ptr<Attachments> attachments_;  // null: nobody has been attached
    std::unique_ptr<LineWatches> lines_;
    std::unique_ptr<NotifyReceiver> notify_;
    UniqueFd null_device_;
    UniqueFd ended_pipe_;
};

}  // namespace triton::launcher
