#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <sys/types.h>

#include "launcher/supervisor/restart_policy.h"
#include "lib/base/clock.h"
#include "lib/process/ids.h"
#include "lib/process/spawn_stage.h"

namespace triton::launcher {

using process::ProcessNumber;

using process::Pid;

/// A program's place in the supervisor's table. The shell chooses it (0, 1, ... in document order) and may give it to
/// another program once Supervisor::is_idle() says so. Wherever an order matters, that of the ids is meant.
enum class ProgramId : std::uint32_t {};

struct ProcessId {
    ProgramId program{};
    ProcessNumber number{1};

    auto operator<=>(ProcessId const&) const = default;
};

// What a program wants.

enum class ProgramKind : std::uint8_t {
    service,    ///< all its numbers run all the time
    one_shot,   ///< each number runs to its end; exit code 0 is its success, and what its readiness means
    scheduled,  ///< runs when event::ScheduleDue says so, at most `count` of them at a time
};
/// A one-shot or a scheduled run that has succeeded is done, whatever this says.
enum class Restart : std::uint8_t { always, on_failure, never };
/// What happens to running processes of a program that has changed. With `keep` the next start takes the new one.
enum class OnChange : std::uint8_t { keep, restart, signal };
enum class Readiness : std::uint8_t {
    started,   ///< as soon as it runs
    notified,  ///< event::Ready
    probed,    ///< Helper::readiness, until it succeeds
};
enum class StopScope : std::uint8_t { process, tree };
enum class HealthAction : std::uint8_t { restart, report, exit };

/// More than `count` starts within `interval` are given up before the one too many. Starts that a person, a schedule or
/// a changed configuration asks for begin the count anew. Each process remembers so many times: keep `count` small.
struct StartLimit {
    std::uint32_t count = 5;
    Duration interval = std::chrono::seconds(60);
    std::optional<int> exit_code{};  ///< the container ends with it; nullopt: only this process is given up

    bool operator==(StartLimit const&) const = default;
};

/// Probes by Helper::health. The first comes `interval` after the process is ready, each other one `interval` after the
/// end of the one before.
struct Health {
    Duration interval = std::chrono::seconds(10);
    std::uint32_t retries = 3;  ///< so many failures in a row are one too many
    Duration start_period{};    ///< from the start of the process; failures within it do not count
    HealthAction action = HealthAction::restart;

    bool operator==(Health const&) const = default;
};

/// The defaults are those of the design's form: restarted for ever, nothing before the stop signal.
struct ProgramPolicy {
    std::uint32_t count = 1;
    ProgramKind kind = ProgramKind::service;
    Restart restart = Restart::always;
    RestartPolicy backoff;
    std::optional<StartLimit> start_limit{};
    bool critical = false;  ///< the container ends when one of its processes has ended and is not started again
    /// It serves the launcher itself. Whatever becomes of it neither ends the container nor keeps it; it counts for
    /// nothing, gets no signal that is passed on, and stops last. Such programs and others do not depend on each other.
    bool auxiliary = false;

    int stop_signal = 15;
    Duration stop_timeout = std::chrono::seconds(10);  ///< from the stop signal to SIGKILL
    Duration drain{};                                  ///< before Helper::pre_stop and the signal
    bool has_pre_stop = false;
    Duration pre_stop_timeout = std::chrono::seconds(10);  ///< enforced by the shell; here it only shares out time
    StopScope stop_scope = StopScope::process;
    bool kills_tree = false;  ///< what a process leaves behind is killed; the shell does that when it reaps

    OnChange on_change = OnChange::keep;
    int change_signal = 1;  ///< for OnChange::signal
    bool has_on_failure = false;

    /// Acyclic. Every start waits for them, restarts too; every stop of all goes the other way.
    std::vector<ProgramId> after;
    std::vector<ProgramId> requires_;

    Readiness readiness = Readiness::started;
    Duration probe_interval = std::chrono::seconds(1);  ///< for Readiness::probed; the first is at the start
    Duration start_timeout{};                           ///< from start to readiness, then SIGKILL; 0: none
    Duration watchdog{};                                ///< from readiness or the last ping to SIGABRT; 0: none
    std::optional<Health> health{};

    bool operator==(ProgramPolicy const&) const = default;
};

struct ProgramSpec {
    ProgramId id{};
    ProgramPolicy policy;
    bool has_changed = true;  ///< not what runs; false: whatever it starts would be what was started before

    bool operator==(ProgramSpec const&) const = default;
};

/// Of the launcher as a whole.
struct SupervisorPolicy {
    Duration stop_limit = std::chrono::seconds(30);     ///< for the whole stop; then the launcher ends anyway
    Duration sweep_timeout = std::chrono::seconds(10);  ///< PID 1: from SIGTERM to SIGKILL for all others
    bool is_pid_1 = false;                              ///< then what remains in the PID namespace is ended too
    std::uint64_t seed = 0;                             ///< of the jitter
};

/// Commands that accompany a process. At most one of each kind is under way for a process.
enum class Helper : std::uint8_t { pre_stop, on_failure, readiness, health };
inline constexpr std::size_t helper_kinds = 4;

/// What happens to the supervisor.
namespace event {

/// A configuration has passed its checks: all programs that there are from now on. Those that it lacks are stopped.
struct ConfigurationAccepted {
    std::shared_ptr<std::vector<ProgramSpec> const> programs;
};
/// The results of action::Spawn; exactly one follows each.
struct Spawned {
    ProcessId id;
    Pid pid;
};
struct SpawnFailed {
    ProcessId id;
    process::SpawnError error;
};
/// One of our processes has been reaped.
struct Exited {
    ProcessId id;
    int status;                                  ///< as of waitpid(2)
    std::optional<process::SpawnError> error{};  ///< it never became the program: what failed between clone and execve
    bool was_oom_killed = false;
};
/// The process says that it is ready. Means something to Readiness::notified alone, and once.
struct Ready {
    ProcessId id;
};
/// WATCHDOG=1.
struct WatchdogPing {
    ProcessId id;
};
/// EXTEND_TIMEOUT_USEC: its start or its stop ends not before that, counted from now. Ignored at any other time, and
/// the stop of all does not take longer for it.
struct ExtendTimeout {
    ProcessId id;
    Duration by;
};
/// The result of action::RunHelper; exactly one follows each, also after action::CancelHelper.
struct HelperEnded {
    ProcessId id;
    Helper helper;
    bool ok;
};
/// It is time for a run of a scheduled program.
struct ScheduleDue {
    ProgramId program;
};
/// The second one kills at once. `exit_code` is the container's, unless it ends for another reason already.
struct StopAsked {
    int exit_code = 0;
};
/// A signal to pass on to every process but the auxiliary ones.
struct SignalReceived {
    int signo;
};
enum class Verb : std::uint8_t {
    start,    ///< what is held, has ended, or waits for the end of a backoff
    stop,     ///< and hold until it is started by command
    restart,  ///< stop it if it runs, then start it without a backoff
    signal,
};
/// What somebody asks for. Applies to all numbers of the program without `number`. A start of a scheduled program is a
/// run now. Ignored in a stop of all (but for a signal), and for a process that the configuration does not have.
struct Command {
    Verb verb;
    ProgramId program;
    std::optional<ProcessNumber> number{};
    int signo = 0;  ///< for Verb::signal
};
/// waitpid(2) has no child left to wait for, or action::Sweep has found nobody.
struct NoChildLeft {};
/// The deadline has passed. May come early or too often.
struct TimePassed {};

}  // namespace event

using Event =
    std::variant<event::ConfigurationAccepted, event::Spawned, event::SpawnFailed, event::Exited, event::Ready,
                 event::WatchdogPing, event::ExtendTimeout, event::HelperEnded, event::ScheduleDue, event::StopAsked,
                 event::SignalReceived, event::Command, event::NoChildLeft, event::TimePassed>;

/// What the supervisor wants done, in this order. Those up to Finish have effects, the others tell what happened.
namespace action {

struct Spawn {
    ProcessId id;
    bool operator==(Spawn const&) const = default;
};
enum class Why : std::uint8_t { stop, kill, forward, reload, watchdog, asked };
struct Signal {
    ProcessId id;
    Pid pid;  ///< not reaped yet, hence still its own
    int signo;
    Why why;
    StopScope scope = StopScope::process;  ///< of SIGKILL always the tree
    bool operator==(Signal const&) const = default;
};
struct RunHelper {
    ProcessId id;
    Helper helper;
    bool operator==(RunHelper const&) const = default;
};
/// Its end is still awaited.
struct CancelHelper {
    ProcessId id;
    Helper helper;
    bool operator==(CancelHelper const&) const = default;
};
/// kill(-1, signo). Only ever asked for when the policy says that we are PID 1.
struct Sweep {
    int signo;
    bool operator==(Sweep const&) const = default;
};
struct Finish {
    int exit_code;
    bool operator==(Finish const&) const = default;
};

struct ReportStarted {
    ProcessId id;
    Pid pid;
    bool operator==(ReportStarted const&) const = default;
};
/// It said so, or a probe did. Readiness::started and one-shots are not reported.
struct ReportReady {
    ProcessId id;
    Duration after;  ///< since its start
    bool operator==(ReportReady const&) const = default;
};
struct ReportExited {
    ProcessId id;
    Pid pid;
    int status;
    Duration run;
    std::optional<Duration> restart_in;  ///< nullopt: it is not started again by itself
    bool was_oom_killed = false;
    bool was_asked_for = false;  ///< it was being stopped, and not for being late or ill
    bool operator==(ReportExited const&) const = default;
};
struct ReportStartFailed {
    ProcessId id;
    process::SpawnError error;
    std::optional<Duration> restart_in;
    bool operator==(ReportStartFailed const&) const = default;
};
/// The whole stop took too long; this one is still there (in an uninterruptible sleep, for example).
struct ReportLeft {
    ProcessId id;
    Pid pid;
    bool operator==(ReportLeft const&) const = default;
};
/// Its start limit is reached: it has failed for good.
struct ReportGaveUp {
    ProcessId id;
    std::uint32_t starts;  ///< within the interval
    bool operator==(ReportGaveUp const&) const = default;
};
enum class TimedOut : std::uint8_t { start, watchdog };
struct ReportTimedOut {
    ProcessId id;
    TimedOut what;
    bool operator==(ReportTimedOut const&) const = default;
};
/// Once for each time that the retries are used up.
struct ReportUnhealthy {
    ProcessId id;
    std::uint32_t failures;
    HealthAction action;
    bool operator==(ReportUnhealthy const&) const = default;
};
/// A due run found all places taken, by others than what a command holds.
struct ReportSkipped {
    ProgramId program;
    bool operator==(ReportSkipped const&) const = default;
};
/// The container ends because of this process.
struct ReportEnding {
    ProcessId id;
    int exit_code;
    bool operator==(ReportEnding const&) const = default;
};

}  // namespace action

using Action = std::variant<action::Spawn, action::Signal, action::RunHelper, action::CancelHelper, action::Sweep,
                            action::Finish, action::ReportStarted, action::ReportReady, action::ReportExited,
                            action::ReportStartFailed, action::ReportLeft, action::ReportGaveUp, action::ReportTimedOut,
                            action::ReportUnhealthy, action::ReportSkipped, action::ReportEnding>;

enum class ProcessState : std::uint8_t {
    down,        ///< not wanted, or (scheduled) not due
    waiting,     ///< for the programs that it depends on
    starting,    ///< action::Spawn has no result yet
    activating,  ///< runs and is not ready; a one-shot until it ends
    up,          ///< runs and is ready
    draining,    ///< is to stop, and has the drain delay before anything tells it so
    pre_stop,    ///< the helper is under way
    stopping,    ///< has got the stop signal, or SIGABRT of the watchdog
    killing,     ///< has got SIGKILL
    backoff,     ///< waits for its next start
    done,        ///< has ended well and is not started again
    failed,      ///< has ended badly or was given up
    held,        ///< stopped by command
};
inline constexpr std::size_t process_states = 13;

enum class SupervisorPhase : std::uint8_t { running, stopping, sweeping, finished };

// All that a supervisor knows, as plain data: what one of another version needs to go on with the same processes.

/// Times are of CLOCK_MONOTONIC, which an exec does not change; TimePoint::max() is never.
struct ProcessRecord {
    ProcessState state = ProcessState::down;
    bool is_to_be_held = false;    ///< when it has ended, or in place of its start
    bool is_to_restart = false;    ///< when it has ended: it was stopped for that alone
    bool has_run_badly = false;    ///< its stop is for a failure, and its end counts as one
    bool is_stale = false;         ///< what it runs has changed, and it has yet to be told or started again
    bool has_status = false;       ///< `last_status` is one
    bool fails_once_more = false;  ///< Helper::on_failure was under way when it was wanted again
    std::uint8_t helpers = 0;      ///< bit n: Helper n is under way
    std::uint8_t cancelled = 0;    ///< bit n: and its result means nothing any more
    std::uint8_t exit_code = 0;    ///< of the container, if the end of this process ends it
    std::uint32_t failures = 0;    ///< in a row, as of RestartPolicy
    std::uint32_t bad_probes = 0;  ///< of health, in a row
    std::uint32_t starts = 0;      ///< in all
    Pid pid{};                     ///< while it lives
    int last_status = 0;
    TimePoint since{};                      ///< of the latest start
    TimePoint last_end{};                   ///< of the latest end; epoch: none
    TimePoint deadline = TimePoint::max();  ///< of the state
    TimePoint probe_at = TimePoint::max();  ///< of the next probe, readiness or health

    bool operator==(ProcessRecord const&) const = default;
};

struct ProgramRecord {
    ProgramPolicy policy;
    bool is_configured = false;            ///< else it is only waited for
    bool is_held = false;                  ///< the whole of it was stopped by command: new numbers are held
    bool is_stop_begun = false;            ///< in a stop of all: its turn has come
    TimePoint stop_at = TimePoint::max();  ///< in a stop of all: comes at the latest then
    std::vector<ProcessRecord> processes;
    std::vector<TimePoint> start_times;  ///< start_limit.count for each process, start n in place n % count

    bool operator==(ProgramRecord const&) const = default;
};

struct SupervisorState {
    SupervisorPhase phase = SupervisorPhase::running;
    std::vector<ProgramRecord> programs;  ///< by ProgramId
    std::uint64_t random = 0;             ///< of the jitter
    int exit_code = 0;
    int stops_asked = 0;
    int sweep_signal = 0;
    TimePoint phase_deadline{};             ///< sweeping: of the next step
    TimePoint stop_deadline{};              ///< of the whole stop
    TimePoint latest_kill{};                ///< of everything that is left by then
    TimePoint earliest = TimePoint::max();  ///< not after any deadline

    bool operator==(SupervisorState const&) const = default;
};

/// What there is to tell of a process.
struct ProcessView {
    ProcessState state = ProcessState::down;
    std::optional<Pid> pid{};          ///< while it lives
    TimePoint since{};                 ///< of the latest start
    std::uint32_t starts = 0;          ///< in all
    std::uint32_t failures = 0;        ///< in a row
    std::uint32_t bad_probes = 0;      ///< of health, in a row
    std::optional<int> last_status{};  ///< as of waitpid(2)
    std::optional<TimePoint> last_end{};
    std::optional<TimePoint> restart_at{};  ///< in backoff
    bool is_ready = false;
};

/// Decides what becomes of a container's programs. No system call, no clock, no log: events go in, actions come out,
/// and the same events give the same actions. The shell around it (shell.h) performs them.
///
/// Each process is in one of these states:
///
///     down ──wanted──▶ waiting ──all it depends on is there (at once, mostly)──▶ starting
///      ▲                                                                        │      │
///      │                                                              SpawnFailed│      │Spawned
///      │                                                                        │      ▼
///      │                                                                        │  activating ──ready──▶ up
///      │                                                                        │      │                │
///      │            ┌────────────────────ended by itself────────────────────────┼──────┴───────┬────────┤
///      │            ▼                                                           │              │        │stop
///      │   ┌── what now? ◀──────────────────────────────────────────────────────┘     start    │        ▼
///      │   │    ▲                                                                     timeout  │     draining
///      │   │    │                                                                       │      │        ▼
///      │   │    └────────────────────────Exited────────────── killing ◀─────────────────┘      │     pre_stop
///      │   │    ▲                                                ▲                    watchdog │        ▼
///      │   │    └────────────Exited──────────────────────────────┼──timeout──────── stopping ◀─┴──── the signal
///      │   │                                                     └──second StopAsked: from anywhere
///      │   ├─ not wanted any more ──▶ down
///      │   ├─ stopped by command ───▶ held ──start, restart──▶ waiting
///      │   ├─ stopped by us, and still wanted ──▶ waiting, at once
///      │   ├─ to be restarted ──▶ waiting at once, or backoff ──time passed──▶ waiting
///      └───┴─ not to be restarted, or too often ──▶ done or failed ──command, schedule, changed program──▶ waiting
///
/// A process is wanted while its number is at most the count of a configured program and no stop was asked for. What a
/// program does not use is passed over: without dependencies `waiting` is, without readiness `activating`, and so on.
///
/// Readiness of a program: all its wanted processes are up or done (a scheduled one: always). It is settled when all of
/// them are up, done, failed or held. A start waits until every program of `after` is settled and every program of
/// `requires_` is ready; what has started is not stopped when one of them ends.
///
/// Failure: an exit code but 0, a signal, a failed start; a service that ends before it is ready; any end of a process
/// that was stopped for its readiness, its watchdog or its health.
///
/// The container ends by itself, with the exit code of
///   - a critical process that ended and is not restarted (a scheduled one: only if it failed): that of the process,
///     128 + n for signal n, 127 or 126 if it could not be executed (not found, anything else), never 0 for a failure;
///   - a start limit that names one;
///   - 1 for HealthAction::exit;
///   - the process that failed first among those that are failed, else 0, when nothing runs, nothing is held, no
///     program is scheduled, at least one process is done or failed, and others wait only for such as have failed.
/// The first cause counts, StopAsked included. A stop that does not end within its limit gives 1 instead of 0.
///
/// Auxiliary programs have no part in any of this: not in what ends the container, and not in what keeps it. It ends
/// while they run, if nothing else does. Where nothing else has ended, since no other program is configured or all
/// have the count 0, it goes on and waits for a configuration, whether they run, are done or have failed.
///
/// The stop of all has phases of its own: stopping the processes, then (PID 1 only) sweeping what remains in the
/// namespace, then finished. Nothing starts in it, probes and watchdogs end with its beginning. Programs stop when all
/// that depend on them are down; all others are taken to depend on the auxiliary ones. SIGKILL comes for everybody at
/// 4/5 of the stop limit at the latest. A program's turn comes, whoever is left above it, when otherwise that would not
/// leave the time (drain, pre_stop, stop timeout) that it and the longest chain below it may need. Where a chain may
/// need more time than there is, the shares of all its programs shrink alike. The same goes for the steps of a single
/// process.
class Supervisor {
public:
    using State = ProcessState;
    using Phase = SupervisorPhase;

    explicit Supervisor(SupervisorPolicy const& policy);
    /// Goes on where another one has stopped: the same events give the same actions.
    /// Errors: throws bad_alloc.
    Supervisor(SupervisorPolicy const& policy, SupervisorState const& state);

    /// To be called between two events. Errors: throws bad_alloc.
    [[nodiscard]] SupervisorState state() const;

    /// At most so many actions follow from one event; with `programs`, when that has become the configuration.
    [[nodiscard]] std::size_t most_actions(std::span<ProgramSpec const> programs = {}) const;
    /// Makes room for these programs; then no event allocates until another configuration comes.
    /// Errors: throws bad_alloc, with nothing changed.
    void reserve(std::span<ProgramSpec const> programs);
    /// Appends to `actions` what is to be done. Allocates only for a configuration, before anything has changed.
    void handle(Event const& event, TimePoint now, std::vector<Action>& actions);

    /// When event::TimePassed is due; nullopt: nothing waits for time.
    [[nodiscard]] std::optional<TimePoint> next_deadline() const;

    [[nodiscard]] Phase phase() const { return phase_; }
    /// Asked for twice: everything gets SIGKILL.
    [[nodiscard]] bool is_in_a_hurry() const { return stops_asked_ > 1; }
    /// Live processes, without auxiliary ones.
    [[nodiscard]] std::uint32_t running_count() const;
    /// All configured programs are ready, auxiliary ones aside.
    [[nodiscard]] bool is_ready() const;

    /// Ids from 0 to here have something to tell, though not all of them are in use.
    [[nodiscard]] std::uint32_t program_count() const { return static_cast<std::uint32_t>(programs_.size()); }
    /// The configuration does not have it, and nothing of it is left: its id may be given to another program.
    [[nodiscard]] bool is_idle(ProgramId id) const;
    [[nodiscard]] bool is_ready(ProgramId id) const;
    [[nodiscard]] bool is_settled(ProgramId id) const;
    /// The latest accepted; of a program that has vanished its last one.
    [[nodiscard]] ProgramPolicy const& policy(ProgramId id) const;
    /// Processes that have a state to tell of: numbers 1 to size().
    [[nodiscard]] std::uint32_t size(ProgramId id) const;
    [[nodiscard]] State state(ProcessId id) const;
    [[nodiscard]] ProcessView view(ProcessId id) const;

private:
    using Counts = std::array<std::uint32_t, process_states>;

    struct Program {
        std::shared_ptr<ProgramPolicy const> policy;
        std::uint32_t count = 0;  // the configured one; 0 when it is not configured
        bool is_configured = false;
        bool is_changed = false;  // by the configuration in hand
        bool is_other_kind = false;
        bool is_held = false;
        bool is_stop_begun = false;
        TimePoint stop_at = never;
        std::uint32_t helpers = 0;
        std::uint32_t expected_dependants = 0;
        Counts in_state{};
        std::vector<ProcessRecord> processes;
        std::vector<TimePoint> start_times;
        std::vector<ProgramId> dependants;
        // Nanoseconds that a stop may take: of this one alone, of what it waits for, of it and what waits for it.
        double need = 0, above = 0, below = 0;
    };
    /// One process with all that belongs to it.
    struct Place {
        Program& program;
        ProcessRecord& process;
        ProcessId id;

        [[nodiscard]] ProgramPolicy const& policy() const { return *program.policy; }
    };
    struct Outcome {
        std::optional<Duration> restart_in;  // nullopt: not by itself
        bool is_given_up = false;
    };
    struct Ending {
        ProcessId id;
        int exit_code;
    };

    static constexpr TimePoint never = TimePoint::max();

    static std::size_t index(ProgramId id) { return static_cast<std::size_t>(id); }
    static std::size_t index(ProcessNumber number) { return static_cast<std::size_t>(number) - 1; }
    static bool is_down(Program const& program);
    static bool is_auxiliary(Program const& program) { return program.policy && program.policy->auxiliary; }
    [[nodiscard]] Place place(ProcessId id);
    template <class Call>
    void for_each(Program& program, Call call);
    template <class Call>
    void for_each(Call call);
    [[nodiscard]] bool is_wanted(Place const& at) const;
    [[nodiscard]] TimePoint in(Duration duration) const;
    void act(Action const& action) { actions_->push_back(action); }

    void on(event::ConfigurationAccepted const& event);
    void on(event::Spawned const& event);
    void on(event::SpawnFailed const& event);
    void on(event::Exited const& event);
    void on(event::Ready const& event);
    void on(event::WatchdogPing const& event);
    void on(event::ExtendTimeout const& event);
    void on(event::HelperEnded const& event);
    void on(event::ScheduleDue const& event);
    void on(event::StopAsked const& event);
    void on(event::SignalReceived const& event);
    void on(event::Command const& event);
    void on(event::NoChildLeft const& event);
    void on(event::TimePassed const& event);

    // configurations: supervisor_configuration.cpp
    void take(Program& program, std::shared_ptr<ProgramPolicy const> policy, bool is_changed);
    void connect();
    void reconfigure(Place const& at);
    void reconfigure_ended(Place const& at);
    void reconfigure_running(Place const& at);
    void watch_anew(Place const& at);

    // one process: starts and ends: supervisor.cpp
    void begin(Place const& at);
    void begin_anew(Place const& at);
    void start(Place const& at);
    void activate(Place const& at);
    void come_up(Place const& at);
    Outcome decide_after_end(Place const& at, State before, Run run, Duration least = Duration::zero());
    Outcome decide_by_policy(Place const& at, Run run, Duration least);
    void conclude(Place const& at, bool is_success);
    void down(Place const& at);
    [[nodiscard]] std::span<TimePoint> start_times(Place const& at);
    [[nodiscard]] bool is_one_too_many(Place const& at, TimePoint start);
    void end_container(Place const& at, int exit_code);
    void settle();
    [[nodiscard]] bool may_start(Program const& program) const;
    void start_waiting();
    [[nodiscard]] bool is_over() const;
    [[nodiscard]] Ending last_ending() const;
    [[nodiscard]] static std::uint32_t count(Program const& program, std::initializer_list<State> states);
    double random();

    // probes, time: supervisor_watch.cpp
    void time_passed(Place const& at);
    void probe(Place const& at);
    void time_out(Place const& at, action::TimedOut what);
    void judge_health(Place const& at, bool ok);
    void run_helper(Place const& at, Helper helper);
    void cancel_helper(Place const& at, Helper helper);
    void cancel_helpers_of_run(Place const& at);
    [[nodiscard]] static bool is_under_way(ProcessRecord const& process, Helper helper);
    void set_state(Place const& at, State state);
    void set_timer(TimePoint& timer, TimePoint when);
    void remember_deadline(TimePoint deadline);
    void recompute_deadline();

    // commands: supervisor_command.cpp
    bool start_by_command(Place const& at);
    void stop_by_command(Place const& at);
    bool restart_by_command(Place const& at);
    void run_scheduled(ProgramId id, std::optional<ProcessNumber> number);

    // stops: supervisor_stop.cpp
    void stop(Place const& at);
    void go_on_after_drain(Place const& at);
    void send_stop(Place const& at);
    void signal(Place const& at, int signo, action::Why why, StopScope scope = StopScope::process);
    void kill(Place const& at);
    [[nodiscard]] TimePoint share(Duration part, Duration next, Duration last) const;
    void begin_stop(int exit_code);
    void prepare_stop(Place const& at);
    void plan_stop();
    void advance_stop();
    void begin_stop_of(Program& program);
    void hurry();
    void kill_if_alive(Place const& at);
    void cancel_helpers();
    void finish_stop_when_all_down();
    void sweep(int signo, TimePoint until);
    void finish(int exit_code);
    void give_up();

    SupervisorPolicy policy_;
    std::uint64_t random_;
    std::vector<Program> programs_;
    std::size_t room_;                  // for the actions of one event, without those for helpers under way
    std::uint32_t scheduled_ = 0;       // programs that wait for a schedule, and keep the container
    std::uint32_t timers_ = 0;          // of processes, armed
    std::uint32_t helpers_ = 0;         // under way
    std::uint32_t wanted_helpers_ = 0;  // and not cancelled
    Phase phase_ = Phase::running;
    int exit_code_ = 0;
    int stops_asked_ = 0;
    int sweep_signal_ = 0;
    TimePoint phase_deadline_{};
    TimePoint stop_deadline_{};
    TimePoint latest_kill_{};
    TimePoint earliest_ = never;  // not after any deadline; corrected when it passes

    // Of the event in hand.
    TimePoint now_{};
    std::vector<Action>* actions_ = nullptr;
    bool has_news_ = false;     // something may start, or stop, that waits for others
    bool may_be_over_ = false;  // something has come to an end
    std::optional<Ending> ending_{};
};

}  // namespace triton::launcher
