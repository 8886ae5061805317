#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/supervisor/policy.h"
#include "lib/process/spawn_stage.h"

namespace triton::launcher {

enum class ProcessState : std::uint8_t {
    down,        ///< not wanted, or (scheduled) not due
    waiting,     ///< for the programs that it depends on
    starting,    ///< action::Spawn has no result yet
    activating,  ///< runs and is not ready; a one-shot until it ends
    up,          ///< runs and is ready
    draining,    ///< is to stop, and waits for the drain delay first
    pre_stop,    ///< the helper is under way
    stopping,    ///< has got the stop signal, or SIGABRT of the watchdog
    killing,     ///< has got SIGKILL
    backoff,     ///< waits for its next start
    done,        ///< has ended well and is not started again
    failed,      ///< has ended badly or was given up
    held,        ///< stopped by command
    executing,   ///< between starting and activating: its child exists and has not executed the program, as far as is
                 ///< known. Behind the others, since an upgrade passes states on as numbers.
    undoing,     ///< a one-shot that was done: Helper::on_stop is under way
    clearing,    ///< has ended; the rest of its tree has been told to stop, and has some time
};
inline constexpr std::size_t process_states = 16;

enum class SupervisorPhase : std::uint8_t { running, stopping, sweeping, finished };

/// Why we stopped or killed a process, if that was not requested.
enum class Fault : std::uint8_t { none, start_timeout, watchdog, unhealthy, run_timeout };

// All that a supervisor knows, as plain data: what one of another version needs to continue with the same processes.

/// Times are of CLOCK_MONOTONIC, which an exec does not change; TimePoint::max() is never.
struct ProcessRecord {
    ProcessState state = ProcessState::down;
    bool is_to_be_held = false;       ///< when it has ended, or in place of its start
    bool is_to_restart = false;       ///< when it has ended: it was stopped for that alone
    bool has_run_badly = false;       ///< its stop is for a failure, and its end counts as one
    bool is_stale = false;            ///< its program has changed, and it has yet to be told or restarted
    bool has_status = false;          ///< `last_status` is one
    bool is_untold = false;           ///< that it has started: not before it has executed, and before its end
    bool fails_once_more = false;     ///< Helper::on_failure was under way when it was wanted again
    bool succeeds_once_more = false;  ///< the same of Helper::on_success
    Fault fault = Fault::none;        ///< of the latest run
    bool is_unwell = false;           ///< up, but no longer ready: a check that only reports has failed
    bool is_to_roll = false;          ///< up, and to restart when enough others are ready
    bool is_main_known = false;       ///< ProgramPolicy::forks: `pid` is not the first one of the start any more
    bool said_ready = false;          ///< before that
    std::uint16_t helpers = 0;        ///< bit n: Helper n is under way
    std::uint16_t cancelled = 0;      ///< bit n: and its result is ignored
    std::uint8_t stop_step = 0;       ///< stopping: which of the policy's stop_steps it has got
    std::uint8_t exit_code = 0;       ///< of the container, if the end of this process ends it
    std::uint8_t error_stage = 0;     ///< process::SpawnStage of `error_code`
    bool is_unwatched = false;        ///< its program had no watchdog yet when it was started
    ProcessState ended_in = ProcessState::down;  ///< clearing: the state in which it has ended
    bool was_oom_killed = false;                 ///< clearing: event::Exited has said so
    std::uint16_t error_code = 0;    ///< errno, if its latest end was that of a child that never executed the program
    std::uint16_t signal_error = 0;  ///< errno: the process could not be signalled
    std::uint32_t failures = 0;      ///< in a row, as of RestartPolicy
    std::uint32_t starts = 0;        ///< in all
    Pid pid{};                       ///< while it lives; none: activating, and the one that goes on is not known yet
    int last_status = 0;
    TimePoint since{};                       ///< of the latest start
    TimePoint last_end{};                    ///< of the latest end; epoch: none
    TimePoint deadline = TimePoint::max();   ///< of the state
    TimePoint probe_at = TimePoint::max();   ///< of the next probe of readiness
    TimePoint run_until = TimePoint::max();  ///< of the run: ProgramPolicy::run_timeout

    bool operator==(ProcessRecord const&) const = default;
};

/// The state of one check of one process.
struct CheckRecord {
    TimePoint probe_at = TimePoint::max();  ///< of the next probe
    std::uint32_t failures = 0;             ///< in a row

    bool operator==(CheckRecord const&) const = default;
};

struct ProgramRecord {
    ProgramPolicy policy;
    bool is_configured = false;            ///< else it is only waited for
    bool is_held = false;                  ///< the whole of it was stopped by command: new numbers are held
    bool is_run_owed = false;              ///< ProgramPolicy::makes_up: one was missed
    bool is_stop_begun = false;            ///< in a stop of all: its turn has come
    TimePoint stop_at = TimePoint::max();  ///< in a stop of all: comes at the latest then
    std::vector<ProcessRecord> processes;
    std::vector<TimePoint> start_times;  ///< start_limit.count for each process, start n in place n % count
    std::vector<CheckRecord> checks;     ///< policy.checks.size() for each process

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

/// The data of a process for reports.
struct ProcessView {
    ProcessState state = ProcessState::down;
    std::optional<Pid> pid{};                         ///< while it lives
    Pid latest_pid{};                                 ///< of the latest start that had one
    Fault fault = Fault::none;                        ///< of the latest run
    TimePoint since{};                                ///< of the latest start
    std::uint32_t starts = 0;                         ///< in all
    std::uint32_t failures = 0;                       ///< in a row
    std::uint32_t bad_probes = 0;                     ///< in a row, of the check that has failed most often
    std::optional<int> last_status{};                 ///< as of waitpid(2)
    std::optional<process::SpawnError> last_error{};  ///< the latest end was a start that failed
    std::optional<TimePoint> last_end{};
    std::optional<TimePoint> restart_at{};  ///< in backoff
    int signal_error = 0;                   ///< errno: it lives, and could not be signalled
    bool is_ready = false;
    bool is_to_be_held = false;    ///< its stop was asked for by command
    bool is_main_awaited = false;  ///< ProgramPolicy::forks: it lives, and the process that goes on is not known yet
};

}  // namespace triton::launcher
