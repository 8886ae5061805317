#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "launcher/supervisor/actions.h"
#include "launcher/supervisor/events.h"
#include "launcher/supervisor/policy.h"
#include "launcher/supervisor/state.h"
#include "lib/base/clock.h"

namespace triton::launcher {

/// Decides what becomes of a container's programs. No system call, no clock, no log: events go in, actions come out,
/// and the same events give the same actions. The shell around it (shell.h) performs them.
///
/// Each process is in one of these states:
///
///     down ──wanted──▶ waiting ──all it depends on is there (at once, mostly)──▶ starting
///      ▲                                                                        │      │
///      │                                                              SpawnFailed│      │Spawned
///      │                                                                        │      ▼
///      │                                                                        │  executing
///      │                                                                        │      │Executed
///      │                                                                        │      ▼
///      │                                                                        │  activating ──ready──▶ up
///      │                                                                        │      │                │
///      │            ┌─────────ended by itself, executing or later───────────────┼──────┴───────┬────────┤
///      │            ▼                                                           │              │        │stop
///      │   ┌── what now? ◀──────────────────────────────────────────────────────┘     start    │        ▼
///      │   │    ▲                                                                     timeout  │     draining
///      │   │    │                                                          (executing, too)    │        ▼
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
/// A process whose policy stops its whole tree (StopScope::tree) and that ends while others of the tree live is
/// `clearing` before "what now?". They get the stop signal, unless they have got it together with the process, and have
/// until the stop timeout; then they get SIGKILL. Only when none is left, or all are killed, has the process ended.
///
/// A one-shot that is done and has something to undo goes through `undoing` when it is stopped, by command, by its
/// removal, or in the stop of all when its turn comes; then it is held, down or, if it was to be restarted, waiting.
/// When it is not wanted any more it stays done until all is down that depends on it and is not wanted either.
///
/// A process is wanted while its number is at most the count of a configured program and no stop was asked for. What a
/// program does not use is passed over: without dependencies `waiting` is, without readiness `activating`, and so on.
/// `executing` is never passed over: a start counts when the program runs, and until then nobody is ready. A process
/// that ends without an error of its start has executed, and so has one that says that it is ready. It is stopped like
/// any other; what becomes of its execve does not matter then.
///
/// Readiness of a program: all its wanted processes are up or done (a scheduled one: always). It is settled when all of
/// them are up, done, failed or held. A start waits until every program of `after` is settled and every program of
/// `requires_` is ready; what has started is not stopped when one of them ends.
/// What is bound to another one is: it stops while that one is not ready, and then starts again, whatever its own
/// restart policy says.
///
/// A process that forks (ProgramPolicy::forks) is activating until the one that goes on is known. When its first
/// process has ended with exit code 0 there may be nobody to signal for a while: a stop and a timeout then kill
/// whatever it has started. Probes begin when the one that goes on is known; what it said before is remembered.
///
/// Failure: an exit code but 0 and a signal, unless the policy takes them for a success; a failed start; a service that
/// ends before it is ready; any end of a process that was stopped for its readiness, its watchdog or its health.
///
/// A program that is not to start by itself is held as a whole when the configuration brings it. While it is, it keeps
/// neither the container from being ready nor from its end.
///
/// The container ends by itself, with the exit code of
///   - a critical process that ended and is not restarted (a scheduled one: only if it failed): that of the process,
///     128 + n for signal n, 127 or 126 if it could not be executed (not found, anything else), never 0 for a failure;
///   - a start limit that names one;
///   - 1 for HealthAction::exit;
///   - the process that failed first among those that are failed, else 0, when nothing runs, nothing else is held, no
///     program is scheduled, at least one process is done or failed, and others wait only for those that have failed.
/// The first cause counts, StopAsked included. A stop that does not end within its limit gives 1 instead of 0.
///
/// Auxiliary programs have no part in any of this: not in what ends the container, and not in what keeps it. It ends
/// while they run, if nothing else does. Where nothing else has ended, since no other program is configured or all
/// have the count 0, it continues and waits for a configuration, whether they run, are done or have failed.
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
    /// Continues where another one has stopped: the same events give the same actions.
    /// Errors: throws bad_alloc.
    Supervisor(SupervisorPolicy const& policy, SupervisorState const& state);

    /// To be called between two events. Errors: throws bad_alloc.
    [[nodiscard]] SupervisorState state() const;

    /// At most this many actions follow from one event; with `programs`, when that has become the configuration.
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
    /// Processes that live, or whose trees do, without auxiliary ones.
    [[nodiscard]] std::uint32_t running_count() const;
    /// All configured programs are ready, auxiliary ones aside.
    [[nodiscard]] bool is_ready() const;

    /// Ids from 0 to here have something to tell, though not all of them are in use.
    [[nodiscard]] std::uint32_t program_count() const { return static_cast<std::uint32_t>(programs_.size()); }
    /// The configuration does not have it, and nothing of it is left: its id may be given to another program.
    [[nodiscard]] bool is_idle(ProgramId id) const;
    /// The same for a process: it is down, and none of its helpers is under way.
    [[nodiscard]] bool is_idle(ProcessId id) const;
    [[nodiscard]] bool is_ready(ProgramId id) const;
    [[nodiscard]] bool is_settled(ProgramId id) const;
    /// The latest accepted; of a program that has vanished its last one.
    [[nodiscard]] ProgramPolicy const& policy(ProgramId id) const;
    /// Processes that have a state to tell of: numbers 1 to size().
    [[nodiscard]] std::uint32_t size(ProgramId id) const;
    [[nodiscard]] State state(ProcessId id) const;
    [[nodiscard]] ProcessView view(ProcessId id) const;
    /// Whether this end of one of its processes would not be the end of it: the shell leaves what it has started alone.
    [[nodiscard]] bool outlives(event::Exited const& end) const;
    /// Whether this process has its tree stopped with it, and is not being killed: when it ends, the shell leaves the
    /// others of the tree alone and says that there are some.
    [[nodiscard]] bool gives_time_to_rest(ProcessId id) const;
    /// Whether event::MainFound means something.
    [[nodiscard]] bool takes_main(ProcessId id) const;

private:
    using Counts = std::array<std::uint32_t, process_states>;

    struct Program {
        std::shared_ptr<ProgramPolicy const> policy;
        std::uint32_t count = 0;  // the configured one; 0 when it is not configured
        bool is_configured = false;
        bool is_new = false;      // the current configuration brings it
        bool is_changed = false;  // by the current configuration
        bool is_other_kind = false;
        bool is_judged_anew = false;  // see ProgramPolicy::judges_like()
        bool is_held = false;
        bool is_run_owed = false;
        bool is_stop_begun = false;
        TimePoint stop_at = never;
        std::uint32_t helpers = 0;
        std::uint32_t expected_dependants = 0;
        Counts in_state{};
        std::vector<ProcessRecord> processes;
        std::vector<TimePoint> start_times;
        std::vector<CheckRecord> checks;
        std::uint32_t unwell = 0;           // processes that are
        std::uint32_t to_roll = 0;          // the same
        std::vector<ProgramId> dependants;  // of for_each_used()
        // Nanoseconds that a stop may take: of this one alone, of what it waits for, of it and what waits for it.
        double need = 0, above = 0, below = 0;
    };
    /// One process with everything that belongs to it.
    struct Place {
        Program& program;
        ProcessRecord& process;
        ProcessId id;

        [[nodiscard]] ProgramPolicy const& policy() const { return *program.policy; }
    };
    struct Outcome {
        std::optional<Duration> restart_in;  // nullopt: not by itself
        bool is_given_up = false;
        std::uint32_t failures = 0;  // as of action::ReportExited
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
    static bool is_passive(Program const& program) {
        return program.is_held && program.policy && !program.policy->auto_start;
    }
    [[nodiscard]] Place place(ProcessId id);
    template <class Call>
    void for_each(Program& program, Call call);
    template <class Call>
    void for_each(Call call);
    /// Those that a program starts after, and is to be stopped before, while it is configured or on its way out.
    template <class Call>
    void for_each_used(Program const& program, Call call);
    [[nodiscard]] bool is_wanted(Place const& at) const;
    [[nodiscard]] TimePoint in(Duration duration) const;
    void act(Action const& action) { actions_->push_back(action); }

    void on(event::ConfigurationAccepted const& event);
    void on(event::Spawned const& event);
    void on(event::SpawnFailed const& event);
    void on(event::Executed const& event);
    void on(event::Exited const& event);
    void on(event::TreeEmpty const& event);
    void on(event::SignalFailed const& event);
    void on(event::MainFound const& event);
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

    // configurations: configuration.cpp
    void take(Program& program, std::shared_ptr<ProgramPolicy const> policy, bool is_changed);
    void connect();
    void reconfigure(Place const& at);
    void reconfigure_ended(Place const& at);
    void reconfigure_running(Place const& at);
    void watch_anew(Place const& at);
    void check_anew(Place const& at);
    static void adopt_check(Place const& at);

    // one process: starts and ends: supervisor.cpp
    void begin(Place const& at);
    void begin_anew(Place const& at);
    void start(Place const& at);
    void tell_start(Place const& at);
    void executed(Place const& at);
    void activate(Place const& at);
    void come_up(Place const& at);
    static bool awaits_main(Place const& at) { return at.policy().forks && !at.process.is_main_known; }
    void go_on(Place const& at, std::optional<Pid> successor);
    void go_on_as(Place const& at, Pid pid);
    void become_ready(Place const& at);
    static bool says_when_ready(ProgramPolicy const& policy);
    void clear(Place const& at, State before);
    void ended(Place const& at, State before);
    static void remember_error(Place const& at, std::optional<process::SpawnError> const& error);
    Outcome decide_after_end(Place const& at, State before, Run run, Duration least = Duration::zero());
    Outcome decide_by_policy(Place const& at, Run run, Duration least);
    void conclude(Place const& at, bool is_success);
    void down(Place const& at);
    [[nodiscard]] std::span<TimePoint> start_times(Place const& at);
    [[nodiscard]] static std::span<CheckRecord> checks(Place const& at);
    [[nodiscard]] bool is_one_too_many(Place const& at, TimePoint start);
    void end_container(Place const& at, int exit_code);
    void settle();
    [[nodiscard]] bool may_start(Program const& program) const;
    void start_waiting();
    void start_in_order(Program& program);
    void undo_unwanted();
    static std::span<ProcessRecord const> unwanted(Program const& program);
    static std::uint32_t to_be_undone(Program const& program);
    static bool is_leaving(Program const& program);
    void roll();
    void roll(Program& program);
    void stop_for_restart(Place const& at, bool is_at_once = false);
    void stop_bound();
    void stop_bound(Program& program);
    [[nodiscard]] bool is_over() const;
    [[nodiscard]] Ending last_ending() const;
    [[nodiscard]] static std::uint32_t count(Program const& program, std::initializer_list<State> states);
    double random();

    // probes, time: watch.cpp
    static Duration watchdog(Place const& at) {
        return at.process.is_unwatched ? Duration::zero() : at.policy().watchdog;
    }
    void time_passed(Place const& at);
    void probe(Place const& at);
    void time_out(Place const& at, action::TimedOut what);
    void probe_health(Place const& at, std::size_t check);
    void judge_health(Place const& at, std::size_t check, bool ok);
    void judge_wellness(Place const& at);
    void stop_checks(Place const& at);
    static void set_unwell(Place const& at, bool is_unwell);
    static void set_to_roll(Place const& at, bool is_to_roll);
    void run_helper(Place const& at, Helper helper);
    void cancel_helper(Place const& at, Helper helper);
    void cancel_helpers_of_run(Place const& at);
    void cancel_probes(Place const& at);
    [[nodiscard]] static bool is_under_way(ProcessRecord const& process, Helper helper);
    void set_state(Place const& at, State state);
    void set_timer(TimePoint& timer, TimePoint when);
    void remember_deadline(TimePoint deadline);
    void recompute_deadline();

    // commands: command.cpp
    bool start_by_command(Place const& at);
    void renew(Place const& at);
    void reload(Place const& at);
    void stop_by_command(Place const& at);
    bool restart_by_command(Place const& at, bool is_at_once);
    void run_scheduled(ProgramId id, std::optional<ProcessNumber> number);
    void run_what_is_owed(Place const& at);

    // stops: stop.cpp
    void stop(Place const& at);
    void go_on_after_drain(Place const& at);
    void send_stop(Place const& at);
    void send_step(Place const& at);
    void signal_step(Place const& at);
    void after_step(Place const& at);
    [[nodiscard]] static bool is_undone_by_stop(Place const& at);
    void undo(Place const& at);
    void hurry_undo(Place const& at);
    void undone(Place const& at);
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

    // Of the current event.
    TimePoint now_{};
    std::vector<Action>* actions_ = nullptr;
    bool has_news_ = false;           // something may start, or stop, that waits for others
    bool may_be_over_ = false;        // something has come to an end
    bool starts_last_ = false;        // after all that is due: one of these ends may be that of the container
    bool is_undoing_awaited_ = true;  // also of later ones: what is not wanted any more may be to be undone
    std::optional<Ending> ending_{};
};

}  // namespace triton::launcher
