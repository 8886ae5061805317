#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "launcher/supervisor/policy.h"
#include "launcher/supervisor/state.h"
#include "lib/process/spawn_stage.h"

namespace triton::launcher {

/// The supervisor's decisions, in this order: effects, which the shell performs, and reports, which say what happened.
namespace action {

// Effects.

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
/// All that an ended process has left behind; see event::Exited::leaves_rest. After SIGKILL the shell forgets the rest.
struct SignalRest {
    ProcessId id;
    int signo;
    Why why;
    bool operator==(SignalRest const&) const = default;
};
/// All that the process has started gets SIGKILL; none of it is known by its pid. event::Exited follows, as of SIGKILL.
struct EndTree {
    ProcessId id;
    bool operator==(EndTree const&) const = default;
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

// Reports.

/// It has executed its program.
struct ReportStarted {
    ProcessId id;
    Pid pid;
    bool operator==(ReportStarted const&) const = default;
};
/// ProgramPolicy::forks: it goes on as this process.
struct ReportMain {
    ProcessId id;
    Pid pid;
    bool operator==(ReportMain const&) const = default;
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
    bool is_expected = false;    ///< not exit code 0, but a success by its policy
    bool is_permanent = false;   ///< a failure after which its policy wants no other start
    std::uint32_t failures = 0;  ///< in a row, with this one; 0: it is none, or not started again by itself
    Fault fault = Fault::none;
    bool operator==(ReportExited const&) const = default;
};
struct ReportStartFailed {
    ProcessId id;
    process::SpawnError error;
    std::optional<Duration> restart_in;
    std::uint32_t failures = 0;  ///< the same
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
enum class TimedOut : std::uint8_t { start, watchdog, run };
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
    std::size_t check = 0;  ///< of ProgramPolicy::checks
    bool operator==(ReportUnhealthy const&) const = default;
};
/// A check that was reported as failing has succeeded again.
struct ReportHealthy {
    ProcessId id;
    std::size_t check;
    bool operator==(ReportHealthy const&) const = default;
};
/// A due run found all places taken, not counting held ones.
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

using Effect = std::variant<action::Spawn, action::Signal, action::SignalRest, action::EndTree, action::RunHelper,
                            action::CancelHelper, action::Sweep, action::Finish>;
using Report =
    std::variant<action::ReportStarted, action::ReportMain, action::ReportReady, action::ReportExited,
                 action::ReportStartFailed, action::ReportLeft, action::ReportGaveUp, action::ReportTimedOut,
                 action::ReportUnhealthy, action::ReportHealthy, action::ReportSkipped, action::ReportEnding>;
/// Two types, so that code that takes actions has an overload for each alternative: an unhandled new one does
/// not compile.
using Action = std::variant<Effect, Report>;

}  // namespace triton::launcher
