#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "config/program.h"
#include "launcher/control/control_server.h"
#include "launcher/output/output_capture.h"
#include "launcher/services/agent_link.h"
#include "launcher/services/check_output.h"
#include "launcher/services/links.h"
#include "launcher/services/network_probes.h"
#include "launcher/services/notify_receiver.h"
#include "launcher/services/schedules.h"
#include "launcher/services/sockets.h"
#include "launcher/supervisor/process_history.h"
#include "launcher/supervisor/supervisor.h"
#include "lib/base/clock.h"
#include "lib/base/path_watcher.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/process/command_runner.h"

namespace triton::launcher {

/// Everything that a launcher passes to the version of itself that it executes: its knowledge, and which descriptors
/// stay open. Nothing in it is a pointer or a layout, so that versions understand each other.
struct UpgradeState {
    struct Program {
        std::string name;
        bool is_used = false;
        config::Output output;              ///< of one that has left the configuration and still runs
        std::vector<std::string> versions;  ///< that its processes run, if it is not all the configured one
        std::vector<std::uint32_t> runs;    ///< by number: which of them

        bool operator==(Program const&) const = default;
    };
    struct Instance {
        std::uint32_t program = 0;
        std::uint32_t number = 1;
        std::uint64_t oom_kills = 0;
        bool was_oom_killed = false;
        std::string status;

        bool operator==(Instance const&) const = default;
    };

    /// Of a process that forks: how what it has started is known, and the file that said as whom it goes on before its
    /// start, which is not to be believed. 0: there was none.
    struct PidFile {
        std::uint32_t program = 0;
        std::uint32_t number = 1;
        std::uint64_t mark = 0;
        std::uint64_t device = 0;
        std::uint64_t inode = 0;
        std::int64_t changed = 0;

        bool operator==(PidFile const&) const = default;
    };

    /// A tree whose process has ended, and that has time to end: see LeftTrees.
    struct LeftTree {
        std::uint32_t program = 0;
        std::uint32_t number = 1;
        pid_t leader = 0;
        std::uint64_t mark = 0;

        bool operator==(LeftTree const&) const = default;
    };

    /// What a process has left behind, which is being ended.
    struct Hunt {
        std::uint32_t program = 0;
        std::uint32_t number = 1;
        std::uint64_t mark = 0;

        bool operator==(Hunt const&) const = default;
    };

    /// Of a file that a program has named under `files`, whose action has not followed yet.
    struct FileChange {
        std::uint32_t program = 0;
        std::string path;
        TimePoint quiet_at{};

        bool operator==(FileChange const&) const = default;
    };

    /// A file that a program has named under `files`, as it was when changes were taken for the last time.
    struct WatchedFile {
        std::string path;
        std::uint64_t device = 0;
        std::uint64_t inode = 0;
        std::int64_t seconds = 0;
        std::int64_t nanoseconds = 0;

        bool operator==(WatchedFile const&) const = default;
    };

    /// Of the log's file, if another process writes it: see FarLog.
    struct LogWriter {
        int channel = -1;      ///< -1: it has ended
        std::size_t sent = 0;  ///< of `waiting`
        std::string waiting;

        bool operator==(LogWriter const&) const = default;
    };

    /// What people ask for afterwards. A version that knows nothing of it can take over without it.
    struct History {
        std::vector<EndRecord> ends;
        std::vector<ProbeRecord> results;
        std::vector<CheckOutput::Open> outputs;  ///< of checks that run

        bool operator==(History const&) const = default;
    };

    std::string version;  ///< of the launcher that wrote it
    pid_t pid = 0;        ///< of the launcher, before and after: a stray state is not ours
    SupervisorState supervisor;
    std::vector<Program> programs;  ///< by ProgramId
    std::vector<Instance> instances;
    bool has_configuration = false;
    std::string configuration;          ///< the text that is active; the file may have become another, bad one
    std::vector<std::string> warnings;  ///< oddities, known to its author
    OutputState output;
    std::optional<LogWriter> log_writer;
    SocketState sockets;
    std::vector<LinkState> links;
    SyslogRelay::State syslog_relay;
    NotifyState notify;
    std::vector<process::CommandRunner::Running> helpers;
    std::vector<pid_t> companions;  ///< see Children::start_companion()
    std::optional<varlink::HandedSocket> control;
    std::vector<Schedules::NextRun> schedules;
    std::string cgroup_tree;           ///< path; empty: none
    std::uint64_t inherited_mask = 0;  ///< of signals, that the processes get back
    bool sigchld_was_ignored = false;
    std::optional<process::ResourceLimit> descriptor_limit;
    TimePoint began{};
    bool told_ready = false;
    int stop_requests = 0;
    std::optional<TimePoint> stop_asked_at;
    bool reboots = false;
    AgentLink::State agent_link;
    std::vector<NetworkProbes::Probe> probes;
    std::vector<PidFile> pid_files;
    std::vector<LeftTree> left_trees;
    std::vector<Hunt> hunts;
    std::vector<std::uint64_t>
        marks;  ///< see Children::mark_of(); of each process with a pid, in the supervisor's order
    std::vector<FileChange> file_changes;
    std::vector<WatchedFile> watched_files;
    // The kernel would close them at execve(2), which takes up to 20 ms: their watches end after a grace period.
    std::optional<PathWatcher::Handed> configuration_watch;
    std::optional<PathWatcher::Handed> files_watch;  ///< of what `files` of programs names
    std::optional<PathWatcher::Handed> pid_files_watch;
    PodState pod;
    std::uint64_t configuration_changes = 0;
    std::int64_t configuration_time = 0;  ///< microseconds since 1970; 0: none yet
    History history;
    std::optional<int> script;   ///< by which the new version was executed: it is to be closed
    std::optional<int> filters;  ///< that the new version's check has compiled: see compiled_filters.h

    /// All that have to stay open.
    [[nodiscard]] std::vector<int> descriptors() const;
};

/// One JSON object. Default values are left out, so that an older version misses only what is used.
std::string write_upgrade_state(UpgradeState const& state);

struct UpgradeProblems {
    std::string error;              ///< it cannot be read at all; empty: it can
    std::vector<std::string> lost;  ///< what this version does not know, as places in the state
};
/// Errors: why it cannot be read, or everything that would be lost.
std::expected<UpgradeState, UpgradeProblems> read_upgrade_state(std::string_view text);

/// A sealed memfd with that text, close-on-exec. Errors: those of memfd_create(2) and write(2).
Result<UniqueFd> seal_upgrade_state(std::string_view text);
/// From now on nobody can change that memfd. Errors: those of fcntl(2).
Result<> seal(int fd);
constexpr std::size_t most_state_bytes = 1 << 30;
/// The text of a sealed memfd. Errors: `denied` when the file could still be changed; those of read(2).
Result<std::string> read_sealed(int fd, std::size_t most = most_state_bytes);

/// Under this name the new version finds its state's descriptor in its environment.
inline constexpr char const* upgrade_variable = "TRITON_LAUNCH_STATE_FD";

}  // namespace triton::launcher
