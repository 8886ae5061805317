#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include <sys/types.h>

#include "base/clock.h"
#include "config/process_number.h"
#include "launcher/restart_policy.h"

namespace triton::launcher {

using config::ProcessNumber;

enum class Pid : pid_t {};  ///< a kernel process id

/// Where a start failed, in the order in which the stages come.
enum class SpawnStage : std::uint8_t { clone, parent_death_signal, process_group, execute };

struct SpawnError {
    SpawnStage stage;
    int code;  ///< errno

    bool operator==(SpawnError const&) const = default;
};

struct SupervisorPolicy {
    RestartPolicy restart;
    int stop_signal = 15;
    Duration stop_timeout = std::chrono::seconds(10);  ///< from the stop signal to SIGKILL, for each process
    Duration stop_limit = std::chrono::seconds(30);    ///< for the whole stop; then the launcher ends anyway
    bool is_pid_1 = false;                             ///< then what remains in the PID namespace is ended too
    std::uint64_t seed = 0;                            ///< of the jitter
};

/// What happens to the supervisor.
namespace event {

/// A configuration has passed its checks. `count` is 0 when it says that nothing is to run.
struct ConfigurationAccepted {
    std::uint32_t count;
};
/// The results of action::Spawn; exactly one follows each.
struct Spawned {
    ProcessNumber number;
    Pid pid;
};
struct SpawnFailed {
    ProcessNumber number;
    SpawnError error;
};
/// One of our processes has been reaped.
struct Exited {
    ProcessNumber number;
    int status;                       ///< as of waitpid(2)
    std::optional<SpawnError> error;  ///< it never became the program: what failed between clone and execve
};
struct StopAsked {};
/// A signal to pass on to every process.
struct SignalReceived {
    int signo;
};
/// waitpid(2) has no child left to wait for, or action::Sweep has found nobody.
struct NoChildLeft {};
/// The deadline has passed. May come early or too often.
struct TimePassed {};

}  // namespace event

using Event = std::variant<event::ConfigurationAccepted, event::Spawned, event::SpawnFailed, event::Exited,
                           event::StopAsked, event::SignalReceived, event::NoChildLeft, event::TimePassed>;

/// What the supervisor wants done, in this order. Those up to Finish have effects, the others tell what happened.
namespace action {

struct Spawn {
    ProcessNumber number;
    bool operator==(Spawn const&) const = default;
};
enum class Why : std::uint8_t { stop, kill, forward };
struct Signal {
    ProcessNumber number;
    Pid pid;  ///< not reaped yet, hence still its own
    int signo;
    Why why;
    bool operator==(Signal const&) const = default;
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
    ProcessNumber number;
    Pid pid;
    bool operator==(ReportStarted const&) const = default;
};
struct ReportExited {
    ProcessNumber number;
    Pid pid;
    int status;
    Duration run;
    std::optional<Duration> restart_in;  ///< nullopt: it is not wanted any more
    bool operator==(ReportExited const&) const = default;
};
struct ReportStartFailed {
    ProcessNumber number;
    SpawnError error;
    std::optional<Duration> restart_in;
    bool operator==(ReportStartFailed const&) const = default;
};
/// The whole stop took too long; this one is still there (in an uninterruptible sleep, for example).
struct ReportLeft {
    ProcessNumber number;
    Pid pid;
    bool operator==(ReportLeft const&) const = default;
};

}  // namespace action

using Action = std::variant<action::Spawn, action::Signal, action::Sweep, action::Finish, action::ReportStarted,
                            action::ReportExited, action::ReportStartFailed, action::ReportLeft>;

/// Decides what becomes of N copies of one program. No system call, no clock, no log: events go in, actions come out,
/// and the same events give the same actions. The shell around it (launch.cpp) performs them.
///
/// Each process is in one of these states:
///
///     down ──start──▶ starting ──Spawned──▶ up ──stop──▶ stopping ──timeout──▶ killing
///      ▲                │  ▲                 │              │                     │
///      │           SpawnFailed│            Exited         Exited                Exited
///      │                ▼  │ time passed     ▼              ▼                     ▼
///      └─not wanted── backoff ◀──────── wanted: start at once, or after a delay; else down
///
/// A process is wanted while its number is at most the accepted count and no stop was asked. The stop has phases of its
/// own: stopping the processes, then (PID 1 only) sweeping what remains in the namespace, then finished.
class Supervisor {
public:
    enum class State : std::uint8_t { down, starting, up, stopping, killing, backoff };
    enum class Phase : std::uint8_t { running, stopping, sweeping, finished };

    explicit Supervisor(SupervisorPolicy const& policy) : policy_(policy), random_(policy.seed) {}

    /// At most so many actions follow from one event.
    [[nodiscard]] std::size_t most_actions(std::uint32_t count) const;
    /// Makes room for so many processes; then no event allocates. Errors: throws bad_alloc, with nothing changed.
    void reserve(std::uint32_t count) { processes_.reserve(count); }
    /// Appends to `actions` what is to be done. Allocates only when the number of processes grows.
    void handle(Event const& event, TimePoint now, std::vector<Action>& actions);

    /// When event::TimePassed is due; nullopt: nothing waits for time.
    [[nodiscard]] std::optional<TimePoint> next_deadline() const;

    [[nodiscard]] Phase phase() const { return phase_; }
    [[nodiscard]] std::uint32_t wanted_count() const { return phase_ == Phase::running ? count_ : 0; }
    [[nodiscard]] std::uint32_t running_count() const;
    /// Processes that have a state to tell of: numbers 1 to size().
    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(processes_.size()); }
    [[nodiscard]] State state(ProcessNumber number) const { return processes_[index(number)].state; }

private:
    struct Process {
        State state = State::down;
        std::uint32_t failures = 0;
        Pid pid{};
        TimePoint since{};     // of the start
        TimePoint deadline{};  // backoff: of the start; stopping: of SIGKILL
    };

    static std::size_t index(ProcessNumber number) { return static_cast<std::size_t>(number) - 1; }
    static ProcessNumber number_at(std::size_t at) { return ProcessNumber{static_cast<std::uint32_t>(at + 1)}; }
    static bool is_alive(State state) {
        return state == State::up || state == State::stopping || state == State::killing;
    }
    static bool waits_for_time(State state) { return state == State::backoff || state == State::stopping; }
    [[nodiscard]] bool is_wanted(std::size_t at) const { return phase_ == Phase::running && at < count_; }

    void on(event::ConfigurationAccepted const& event);
    void on(event::Spawned const& event);
    void on(event::SpawnFailed const& event);
    void on(event::Exited const& event);
    void on(event::StopAsked const& event);
    void on(event::SignalReceived const& event);
    void on(event::NoChildLeft const& event);
    void on(event::TimePassed const& event);

    void start(std::size_t at);
    void stop(std::size_t at);
    void kill(std::size_t at);
    void down(std::size_t at);
    std::optional<Duration> start_again(std::size_t at, Run run, Duration least = Duration::zero());
    void set_state(Process& process, State state);
    void arm(Process& process, State state, TimePoint deadline);
    void remember_deadline(TimePoint deadline);
    void recompute_deadline();
    void finish_stop_when_all_down();
    void sweep(int signo, TimePoint until);
    void give_up();
    double random();

    SupervisorPolicy policy_;
    std::uint64_t random_;
    std::vector<Process> processes_;
    std::uint32_t count_ = 0;
    std::uint32_t not_down_ = 0;
    std::uint32_t waiting_ = 0;  // processes that wait for time
    Phase phase_ = Phase::running;
    int sweep_signal_ = 0;
    TimePoint phase_deadline_{};             // sweeping: of the next step
    TimePoint stop_deadline_{};              // of the whole stop
    TimePoint latest_kill_{};                // of everything that is left by then
    bool in_a_hurry_ = false;                // the stop was asked for twice
    TimePoint earliest_ = TimePoint::max();  // not after any deadline; corrected when it passes
    TimePoint now_{};                        // of the event in hand
    std::vector<Action>* actions_ = nullptr;
};

}  // namespace triton::launcher
