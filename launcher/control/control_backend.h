#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "config/probe_target.h"
#include "launcher/supervisor/supervisor.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"
#include "lib/varlink/socket.h"

namespace triton::launcher {

/// What a process is doing, as the supervisor reports it. The interface description has the names, too. A process that
/// has ended while the rest of its tree is on its way out is stopping, too.
inline constexpr std::array<std::string_view, process_states> process_state_names{
    "down",    "waiting", "starting", "activating", "up",   "draining",  "pre_stop", "stopping",
    "killing", "backoff", "done",     "failed",     "held", "executing", "undoing",  "stopping"};
static_assert(process_state_names.size() == static_cast<std::size_t>(ProcessState::clearing) + 1);

constexpr std::string_view name_of(ProcessState state) { return process_state_names[static_cast<std::size_t>(state)]; }

/// How a process ended last: as a child that never executed its program when there is an error, by a signal when that
/// is not 0, else by a code.
struct LastExit {
    int code = 0;
    int signal = 0;
    bool was_oom_killed = false;
    std::string error = {};  ///< "cannot execute /usr/bin/web: No such file or directory"

    bool operator==(LastExit const&) const = default;
};

/// One process, from what the launcher knows without asking the kernel.
struct ProcessStatus {
    std::uint32_t number = 1;
    ProcessState state = ProcessState::down;
    bool is_unwell = false;        ///< up, but no longer ready: a check that only reports has failed
    bool is_beyond_reach = false;  ///< it could not be signalled: nobody can bring about the end that a stop waits for
    std::optional<pid_t> pid;
    std::optional<Duration> uptime;       ///< of the running process
    std::optional<Duration> since_start;  ///< since the latest start, of a process that has ended too
    std::optional<Duration> since_end;    ///< since the latest end
    std::uint32_t starts = 0;             ///< so far: grows by one at each start, failed ones included
    std::optional<LastExit> last_exit;
    std::optional<Duration> restart_in;  ///< in backoff
    std::string status_text;             ///< what it said by STATUS= (sd_notify(3)), any bytes; empty: nothing
    std::string version;                 ///< of the configuration that it was started from; empty: none
};

/// One of the latest ends of a process.
struct PastEnd {
    std::int64_t time = 0;  ///< microseconds since 1970, UTC
    Duration run{};
    LastExit exit{};
    std::string_view reason{};  ///< why the launcher stopped it, one of end_reason_names; empty: it ended by itself
};
inline constexpr std::array<std::string_view, 5> end_reason_names{"stopped", "start_timeout", "watchdog", "unhealthy",
                                                                  "run_timeout"};
static_assert(end_reason_names.size() == static_cast<std::size_t>(Fault::run_timeout) + 1);

/// One of the latest results of a readiness probe or a health check.
struct PastCheck {
    std::string check;      ///< "readiness", "health", "health NAME"
    std::int64_t time = 0;  ///< microseconds since 1970, UTC
    bool is_ok = false;
    std::string_view why{};     ///< it has failed: "exit code 7"
    std::string_view output{};  ///< the end of what it printed, any bytes
};

/// Both the oldest first; of a check the results one after the other. The texts are borrowed for the call.
struct ProcessPast {
    std::vector<PastEnd> ends;
    std::vector<PastCheck> checks;
};

/// What a process uses: from its cgroup, otherwise from /proc (process_usage.h).
struct ProcessUsage {
    std::optional<std::uint64_t> memory;  ///< bytes
    std::optional<Duration> cpu_time;     ///< of its whole life
};

inline constexpr std::array<std::string_view, 3> program_kind_names{"service", "one_shot", "scheduled"};

/// As people write it, and as messages for them do.
inline std::string_view shown_name(std::string_view program) { return program.empty() ? "-" : program; }

struct ProgramStatus {
    std::string name;  ///< empty: the unnamed program of a document without `programs`
    ProgramKind kind = ProgramKind::service;
    std::uint32_t wanted = 0;     ///< processes 1..wanted are configured
    std::uint32_t processes = 0;  ///< processes 1..processes can be asked for: at least `wanted`, more while some end
    bool is_ready = false;
    std::optional<Duration> next_run_in;  ///< scheduled
    std::string version;                  ///< that is configured now; empty: none
    bool is_internal = false;             ///< the launcher's own ("triton-agent")
    std::vector<std::string> groups;
};

/// Details of one program beyond its status.
struct ProgramDescription {
    std::string version;               ///< empty: none
    std::vector<std::string> command;  ///< of process 1, after substitution
    std::string working_directory;     ///< empty: the launcher's
    std::string user;                  ///< empty: the launcher's
    std::string restart;               ///< "always", "on-failure", "never"
    std::vector<std::string> after;
    std::vector<std::string> requires_;
    std::vector<std::string> binds_to;
    std::vector<std::string> sockets;  ///< "http tcp:0.0.0.0:80"
    std::string output;                ///< "inherit", "null", a path
};

/// How the agent's reports to others succeed, in its own words.
struct ReporterStatus {
    std::string state;  ///< one of reporter_state_names
    std::string detail;
    std::optional<std::int64_t> last_success;  ///< microseconds since 1970, UTC

    bool operator==(ReporterStatus const&) const = default;
};

inline constexpr std::array<std::string_view, 4> reporter_state_names{"off", "connecting", "ok", "failing"};

struct LauncherStatus {
    std::string version;  ///< "0.1.0 (1a2b3c4)"
    pid_t pid = 0;
    Duration uptime{};
    std::string phase;               ///< "running", "stopping"
    std::string configuration_path;  ///< as given
    bool has_configuration = false;  ///< a good one was loaded
    bool is_ready = false;
    std::vector<std::string> rejection;              ///< why the latest configuration was not taken; empty: it was
    std::uint64_t configuration_changes = 0;         ///< configurations that were accepted so far
    std::optional<std::int64_t> configuration_time;  ///< of the last of them: microseconds since 1970, UTC
    bool is_isolated = false;                        ///< the pod's annotation holds the processes back
    std::optional<ReporterStatus> reporter;          ///< nullopt: no agent has reported one
};

/// What the launcher's command line can make it copy.
enum class StagingKind : std::uint8_t { all, files, binaries, libraries, monitor_conf };
inline constexpr std::array<std::string_view, 5> staging_kind_names{"all", "files", "binaries", "libraries",
                                                                    "monitor_conf"};
static_assert(staging_kind_names.size() == static_cast<std::size_t>(StagingKind::monitor_conf) + 1);

/// The outcome of a staging: the targets that are now up to date, and one line for each that is not.
struct StagingAnswer {
    std::vector<std::string> files;
    std::vector<std::string> errors;

    bool operator==(StagingAnswer const&) const = default;
};

/// The configuration that runs, and why the latest was not taken. All of it is borrowed for the call.
struct ActiveConfiguration {
    std::uint64_t sequence = 0;            ///< grows with each change of the members below
    std::optional<std::string_view> text;  ///< nullopt: none yet
    /// Every variable that a `source` names (of an IPList the address that was chosen), and BINARY_DIR.
    std::span<std::pair<std::string, std::string> const> environment;
    std::optional<std::int64_t> accepted_at;  ///< microseconds since 1970, UTC
    std::span<std::string const> rejection;
    std::optional<std::int64_t> rejected_at;  ///< likewise; nullopt: the latest was taken
};

/// What the pod's annotations and its node's labels say.
struct PodState {
    bool is_isolated = false;   ///< foundationdb.org/isolate-process-group
    Duration shutdown_delay{};  ///< foundationdb.org/delay-shutdown; not negative
    /// For substitution, sorted by name, each name once.
    std::vector<std::pair<std::string, std::string>> variables;

    bool operator==(PodState const&) const = default;
};

/// A probe for an agent to make: a connection, a GET that is answered by a good status, or a check by gRPC.
struct ProbeRequest {
    std::uint64_t id = 0;  ///< the backend's own, for probe_result() and ControlServer::cancel_probe(); never reused
    config::ProbeKind kind = config::ProbeKind::tcp;
    std::string_view target;  ///< "127.0.0.1:80", "http://127.0.0.1:80/healthz"
    Duration timeout{};
    std::span<std::string const> headers{};         ///< NAME=VALUE
    std::span<config::StatusRange const> status{};  ///< good ones; empty: 200 to 399
    std::string_view service{};
};

/// Whose a process is.
enum class ProcessOwner : std::uint8_t {
    nobody,      ///< not started by us
    program,     ///< a program of ours with our rights
    other_user,  ///< a program with a user of its own, and no other sandbox
    sandboxed,   ///< a program with capabilities, noNewPrivileges, seccomp or landlock
    agent
};

/// Who owns a connection, which decides what it may call: see the table in control_calls.cpp.
enum class ControlRole : std::uint8_t {
    person,   ///< came through the control socket
    agent,    ///< came from our own agent (ControlServer::adopt())
    limited,  ///< came through the control socket by its uid, with fewer rights than we have
    steward   ///< the agent's, which may command programs and read their output: AgentOptions::may_command
};

/// One line of a program's captured output, or a piece of one. `text` is borrowed, any bytes, without its newline.
struct OutputLine {
    std::uint32_t process = 1;
    bool is_stderr = false;
    std::int64_t time = 0;  ///< microseconds since 1970, UTC; 0: unknown
    std::string_view text;
    std::uint64_t sequence = 0;  ///< grows from line to line of a program; 0: unknown
    bool is_partial = false;     ///< the line continues in the next one of its process and stream
};

/// Takes lines of output; returns whether it wants another.
class OutputLineSink {
public:
    virtual ~OutputLineSink() = default;
    virtual bool take(OutputLine const& line) = 0;
};

/// Whom a command concerns: all processes of a program, or one. Checked by the server: both exist.
struct ProcessSelection {
    std::size_t program = 0;              ///< index, below program_count()
    std::optional<std::uint32_t> number;  ///< nullopt: all
};

/// From which version an upgrade leads to which.
struct UpgradeVersions {
    std::string from;
    std::string to;
};

/// What the control server asks of the launcher. The shell implements it; every call comes from inside one of the
/// server's own functions, none blocks, and the calls that ask are cheap: no system call unless it says so. An error's
/// kind decides which Varlink error the caller gets (lib/base/error_kinds.h).
///
/// Programs are named by their index in a table, which may change from one round of the loop to the next, never while
/// one of these functions runs. The server looks an index up by name again whenever it comes back to it.
/// When the outcome of a reload is known.
enum class Reloaded : std::uint8_t { now, later };

/// What a process that has ended has left behind. `stuck`: SIGKILL has not ended it in five seconds.
enum class Leftovers : std::uint8_t { none, ending, stuck };

class ControlBackend {
public:
    virtual ~ControlBackend() = default;

    [[nodiscard]] virtual LauncherStatus launcher() const = 0;
    [[nodiscard]] virtual std::size_t program_count() const = 0;
    [[nodiscard]] virtual std::optional<std::size_t> find_program(std::string_view name) const = 0;
    [[nodiscard]] virtual ProgramStatus program(std::size_t index) const = 0;
    [[nodiscard]] virtual ProgramDescription describe(std::size_t index) const = 0;
    [[nodiscard]] virtual ProcessStatus process(std::size_t program, std::uint32_t number) const = 0;
    [[nodiscard]] virtual ProcessPast past(std::size_t program, std::uint32_t number) const = 0;
    /// Reads a file or two. The server asks for a few processes a round.
    [[nodiscard]] virtual ProcessUsage usage(std::size_t program, std::uint32_t number) const = 0;

    /// Of a process that is down. While it is `ending`, ControlServer::state_changed() follows.
    [[nodiscard]] virtual Leftovers leftovers(std::size_t program, std::uint32_t number) = 0;

    /// Names of the programs that this one requires, directly or not, that do not run and will not start by themselves:
    /// each behind those that it requires itself.
    [[nodiscard]] virtual std::vector<std::string> missing_for(std::size_t index) const = 0;
    /// Names of the programs, held or failed, that this one waits for without an end, directly or not, before it
    /// starts.
    [[nodiscard]] virtual std::vector<std::string> held_up_by(std::size_t index) const = 0;
    /// Names of the programs that run and require this one, directly or not, or that are one-shots to be undone before
    /// it: each behind those that require it.
    [[nodiscard]] virtual std::vector<std::string> running_on(std::size_t index) const = 0;

    // Commands. They return when what they ask for has begun; progress is reported by ControlServer::state_changed().
    virtual Result<> start(ProcessSelection const& which) = 0;
    virtual Result<> stop(ProcessSelection const& which) = 0;
    virtual Result<> restart(ProcessSelection const& which) = 0;
    /// Errors: refused when nothing of it runs.
    virtual Result<> signal(ProcessSelection const& which, int signo) = 0;
    /// Reads the configuration now. One that takes long is judged by another process: then
    /// ControlServer::answer_reload() gives it later. Errors: failed, with the problems as details; refused while
    /// stopping.
    virtual Result<Reloaded> reload() = 0;
    /// Begins to replace the launcher with the program at `path`. The outcome is reported by
    /// ControlServer::answer_upgrade(), which may be called from in here too. Errors: refused when one is under way.
    virtual Result<> upgrade(std::string const& path) = 0;
    /// Begins to copy again what the command line says, or one kind of it. The outcome is reported by
    /// ControlServer::answer_stage() with this ticket, which may be called from in here too.
    /// Errors: refused when there is nothing of that kind to copy, while stopping, or when too many are under way.
    virtual Result<> stage(StagingKind what, std::uint64_t ticket) = 0;

    /// Hands the kept lines of a program's output to the sink, newest first, until it wants no more. Returns which
    /// lines of the program exist, or have existed: others in between are unknown here. Errors: refused when the
    /// program's output is not captured ("inherit").
    struct KeptLines {
        std::uint64_t first = 0;  ///< no line before this sequence is kept
        std::uint64_t end = 0;    ///< no line has had this sequence or one behind it
    };
    virtual Result<KeptLines> output_lines(ProcessSelection const& which, OutputLineSink& sink) const = 0;

    /// Whether somebody can be attached to the terminal of a process; `which` has a number. Errors: refused, busy.
    virtual Result<> check_attachment(ProcessSelection const& which, bool follows) = 0;
    struct Attachment {
        ProcessSelection which;
        std::uint32_t lines = 0;  ///< of kept output, to be shown first
        bool is_read_only = false;
        bool follows = false;  ///< goes on with the next process of the number
    };
    /// Takes over the connection of a client, which speaks in frames (launcher/terminal/attach_frames.h) from now on.
    virtual void attach(Attachment const& attachment, UniqueFd connection) = 0;

    /// Asked when a call begins to watch it, and after ControlServer::configuration_changed().
    [[nodiscard]] virtual ActiveConfiguration active_configuration() const = 0;

    // Reports of the agent. The server has checked their form and bounds.
    virtual void set_pod(PodState state) = 0;
    virtual void set_reporter(ReporterStatus status) = 0;
    /// An agent listens for probes from now on: those that are due are sent by ControlServer::send_probe(), perhaps
    /// from in here. Or it has gone, and requests to it will not be answered; that is reported by a callback of the
    /// loop or by time_passed(), never inside a call of the launcher that sends something. There is one listener
    /// at a time: a second one ends the first (false, then true).
    virtual void probes_wanted(bool is_wanted) = 0;
    /// `id`: any number; one that is (no longer) known means nothing. `detail`: for people, at most 1 KiB.
    virtual void probe_result(std::uint64_t id, bool ok, std::string_view detail) = 0;

    // Whether somebody may command: see PeerRights.
    /// Of processes that were started and not reaped.
    [[nodiscard]] virtual ProcessOwner owner_of(pid_t pid) const = 0;
    /// Whether owner_of() can return more than `nobody` and `program`.
    [[nodiscard]] virtual bool has_strangers() const = 0;
    /// Whether any program has a sandbox (ProcessOwner::sandboxed).
    [[nodiscard]] virtual bool has_sandboxes() const = 0;

    /// For the log: somebody had something done ("restart web:2"), before it is done.
    virtual void command_given(std::string_view command, varlink::Peer const& peer) = 0;
    /// For the log: a connection could not be served (no descriptor left, a peer that is not allowed).
    virtual void control_failed(std::string_view reason) = 0;
};

}  // namespace triton::launcher
