#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/argument.h"
#include "config/cron.h"
#include "config/policy.h"
#include "config/probe_target.h"
#include "config/socket_address.h"
#include "config/syslog.h"
#include "lib/base/rare.h"
#include "lib/base/rare_list.h"
#include "lib/process/settings.h"

namespace triton::config {

// One entry of `programs`, as it was written and checked: no name of a user, capability or system call is looked up
// here. An optional member without a value means that the command line or the launcher decides.

using Milliseconds = std::chrono::milliseconds;

enum class EnvironmentFrom : std::uint8_t { inherit, clean, listed };

/// A command that is run for a program, not as the program.
struct Hook {
    std::vector<Argument> command = {};  ///< not empty
    Milliseconds timeout = std::chrono::seconds(10);

    bool operator==(Hook const&) const = default;
};

struct Backoff {
    std::optional<Milliseconds> initial = {};
    std::optional<double> factor = {};  ///< 1 to 1000
    std::optional<Milliseconds> max = {};
    std::optional<double> jitter = {};  ///< 0 to 1
    std::optional<Milliseconds> reset_after = {};
    bool always = false;  ///< each restart waits

    bool operator==(Backoff const&) const = default;
};

/// More than `count` starts within `interval` are too many.
struct StartLimit {
    std::uint32_t count = 0;  ///< at least 1
    Milliseconds interval{0};
    std::optional<int> exit_code = {};  ///< 1 to 255: end the container with it; absent: give the process up

    bool operator==(StartLimit const&) const = default;
};

enum class ReadinessType : std::uint8_t { notify, fd, exec, tcp, http, grpc, log };
enum class NotifyAccess : std::uint8_t { main, all };

using Headers = std::vector<std::pair<std::string, Argument>>;  ///< field names and their values, in document order

struct Readiness {
    ReadinessType type = ReadinessType::notify;
    int fd = 3;                                       ///< fd: at least 3
    std::vector<Argument> command = {};               ///< exec: not empty
    Rare<Argument> address = {};                      ///< tcp, grpc: for parse_probe_address()
    Rare<Argument> url = {};                          ///< http: for parse_probe_url()
    Headers headers = {};                             ///< http
    std::vector<StatusRange> status = {};             ///< http: those that are good; empty: 200 to 399
    std::string service = {};                         ///< grpc: empty: the server as a whole
    Rare<Argument> pattern = {};                      ///< log: for parse_log_pattern()
    LogStream stream = LogStream::both;               ///< log
    Milliseconds interval = std::chrono::seconds(1);  ///< of probes: from the end of one to the next
    Milliseconds timeout = std::chrono::seconds(1);   ///< of one probe
    NotifyAccess notify_access = NotifyAccess::main;  ///< notify

    bool operator==(Readiness const&) const = default;
};

inline constexpr std::size_t most_health_checks = 8;

enum class HealthType : std::uint8_t { exec, tcp, http, grpc };

struct Health {
    std::string name = {};  ///< empty: the only one
    HealthType type = HealthType::exec;
    std::vector<Argument> command = {};    ///< exec: not empty
    Rare<Argument> address = {};           ///< tcp, grpc: for parse_probe_address()
    Rare<Argument> url = {};               ///< http: for parse_probe_url()
    Headers headers = {};                  ///< http
    std::vector<StatusRange> status = {};  ///< http: those that are good; empty: 200 to 399
    std::string service = {};              ///< grpc: empty: the server as a whole
    Milliseconds interval = std::chrono::seconds(10);
    Milliseconds timeout = std::chrono::seconds(5);
    std::uint32_t retries = 3;  ///< failures in a row until the action; at least 1
    Milliseconds start_period{0};
    HealthAction action = HealthAction::restart;

    bool operator==(Health const&) const = default;
};

/// captured: through a pipe to us, and on to the file, to syslog or, without these, to our own stdout and stderr.
/// program: through a pipe to another program's standard input.
enum class OutputKind : std::uint8_t { inherit, null, captured, program };
enum class OutputFormat : std::uint8_t { raw, prefix, json };
enum class OutputTimestamp : std::uint8_t { none, rfc3339 };
enum class WhenFull : std::uint8_t { block, drop };
/// A stream of the launcher that a path names: /dev/stdout, /dev/stderr. Such a path cannot be opened where the stream
/// is a socket, nor as another user.
enum class OwnStream : std::uint8_t { none, out, err };

struct Output {
    OutputKind kind = OutputKind::inherit;
    Rare<std::string> file = {};  ///< absolute path, the same for all numbers
    OutputFormat format = OutputFormat::prefix;
    std::uint64_t max_size = 10 << 20;       ///< bytes of one file; at least 1
    std::uint32_t max_files = 5;             ///< FILE.1 .., beside FILE itself; 0: a full file is removed
    std::optional<std::uint32_t> mode = {};  ///< of FILE; without: 0644 less the umask, when it is made
    WhenFull when_full = WhenFull::block;
    OutputTimestamp timestamp = OutputTimestamp::none;  ///< raw, prefix: before each line
    std::string to = {};                                ///< OutputKind::program: its name
    OwnStream own_stream = OwnStream::none;             ///< instead of a file, for both streams
    /// Written instead of a path. In a plan its variables are put in, and `file` is what it means where that is the
    /// same for all numbers.
    Rare<Argument> file_argument = {};
    Rare<Syslog> syslog = {};        ///< instead of a file; WhenFull::drop
    std::vector<Output> error = {};  ///< where the standard error goes instead; at most one, which has none itself

    [[nodiscard]] bool has_file() const { return file || file_argument; }
    /// In a plan: each number has a file of its own, unless two names are equal.
    [[nodiscard]] bool is_numbered() const { return file_argument && !file; }
    bool operator==(Output const&) const;
};

/// Lets an output whose file is such a path go to that stream of the launcher.
void settle_own_stream(Output& output);

/// A listening socket or a FIFO that is opened once and passed to the processes by the LISTEN_FDS protocol.
struct ListenSocket {
    std::string name = {};
    SocketAddress address = {};
    std::uint32_t mode = 0660;                    ///< if it has a path
    std::optional<process::IdOrName> user = {};   ///< if it has a path
    std::optional<process::IdOrName> group = {};  ///< if it has a path
    std::uint32_t backlog = 4096;                 ///< listen(2): tcp, unix

    bool operator==(ListenSocket const&) const = default;
};

/// A schedule: from start to start, or by the calendar.
struct Schedule {
    std::variant<Milliseconds, CronExpression> when = {};
    std::string time_zone = {};  ///< of the calendar: a name of the IANA's database; empty: UTC
    bool has_first_run = false;  ///< when the configuration brings the program
    Missed missed = Missed::skip;

    bool operator==(Schedule const&) const = default;
};

/// A file of variables; one that is optional may be missing.
struct EnvironmentSource {
    Argument path = {};
    bool is_optional = false;

    bool operator==(EnvironmentSource const&) const = default;
};

/// One signal of a stop, and how long it is given.
struct StopStep {
    int signal = 0;
    Milliseconds wait{0};

    bool operator==(StopStep const&) const = default;
};

enum class StartOrder : std::uint8_t { parallel, sequential };
inline constexpr std::array<std::string_view, 2> start_order_names{"parallel", "sequential"};

enum class FilesAction : std::uint8_t { restart, signal };

/// Files beside the configuration whose change means something to a program that runs.
struct WatchedFiles {
    std::vector<Argument> paths = {};  ///< not empty
    FilesAction action = FilesAction::restart;
    Milliseconds quiet_time = std::chrono::seconds(1);  ///< without a further change

    bool operator==(WatchedFiles const&) const = default;
};

enum class StdinKind : std::uint8_t { null, inherit, file };

struct Stdin {
    StdinKind kind = StdinKind::null;
    Rare<std::string> file = {};        ///< StdinKind::file: absolute path, the same for all numbers
    Rare<Argument> file_argument = {};  ///< as that of an Output

    bool operator==(Stdin const&) const = default;
};

/// A pseudo-terminal of a process's own, as its standard streams and its controlling terminal.
struct Tty {
    std::uint16_t rows = 24;     ///< at least 1, until somebody attaches
    std::uint16_t columns = 80;  ///< the same

    bool operator==(Tty const&) const = default;
};

/// Its surroundings, limits and sandbox are those of any process.
struct Program : process::Settings {
    std::string name = {};
    RareList<std::string> groups = {};  ///< names that `ctl` knows several programs by, each once
    // what and how many
    Rare<std::string> version = {};
    std::vector<Argument> command = {};  ///< empty: the binary of `version`, else [0] is the program
    std::vector<Argument> arguments = {};
    std::optional<std::uint32_t> count = {};  ///< 0 to 65535; absent: 1
    // its surroundings
    std::vector<std::pair<std::string, Argument>> environment = {};  ///< in the document's order
    EnvironmentFrom environment_from = EnvironmentFrom::inherit;
    RareList<std::string> environment_names = {};        ///< EnvironmentFrom::listed: those of ours
    Rare<Argument> working_directory_argument = {};      ///< instead of working_directory
    RareList<EnvironmentSource> environment_files = {};  ///< later ones win
    // when it runs
    bool one_shot = false;
    Rare<Schedule> schedule = {};
    std::optional<Milliseconds> run_timeout = {};  ///< of a one-shot or a scheduled run
    bool auto_start = true;
    RestartWhen restart = RestartWhen::always;  ///< never, when absent for a one-shot or a schedule
    Rare<Backoff> backoff = {};
    Rare<StartLimit> start_limit = {};
    bool critical = false;
    RareList<End> success_ends = {};       ///< beside exit code 0; sorted, each once
    RareList<End> permanent_ends = {};     ///< the same; none is a success
    RareList<std::string> after = {};      ///< names of other programs, each once
    RareList<std::string> requires_ = {};  ///< the same
    RareList<std::string> binds_to = {};   ///< the same
    RareList<std::string> before = {};     ///< the same
    // how it stops and changes
    std::optional<int> stop_signal = {};
    std::optional<Milliseconds> stop_timeout = {};  ///< 0: SIGKILL at once
    StopScope stop_scope = StopScope::process;
    Milliseconds drain_delay{0};
    RareList<StopStep> stop_sequence = {};  ///< instead of signal and timeout
    Rare<Hook> pre_stop = {};
    OnChange on_change = OnChange::keep;
    int reload_signal = 1;  ///< SIGHUP; OnChange::signal, FilesAction::signal
    Rare<WatchedFiles> files = {};
    StartOrder order = StartOrder::parallel;            ///< of its numbers
    std::optional<std::uint32_t> max_unavailable = {};  ///< in a restart of all numbers; at least 1
    Rare<Hook> on_failure = {};
    Rare<Hook> on_success = {};
    Rare<Hook> on_stop = {};  ///< of a one-shot that is done
    // whether it is well
    Rare<Readiness> readiness = {};  ///< absent: ready when started
    Rare<Argument> pid_file = {};    ///< it forks into the background; an absolute path
    std::optional<Milliseconds> start_timeout = {};
    std::optional<Milliseconds> watchdog = {};
    RareList<Health> health = {};  ///< at most most_health_checks; names are unique
    // what it may use
    Rare<process::CgroupLimits> cgroup = {};
    // its descriptors
    Stdin stdin_ = {};
    std::optional<Tty> tty = {};  ///< then stdin_ is not there, and output has one destination
    Output output = {};
    RareList<ListenSocket> sockets = {};  ///< names are unique

    bool operator==(Program const&) const = default;
};

}  // namespace triton::config
