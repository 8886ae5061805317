#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "launcher/supervisor/policy.h"
#include "lib/process/spawn_stage.h"

namespace triton::launcher {

/// What happens to the supervisor.
namespace event {

/// A configuration has passed its checks: all programs that there are from now on. Those that it lacks are stopped.
struct ConfigurationAccepted {
    std::shared_ptr<std::vector<ProgramSpec> const> programs;
};
/// The results of action::Spawn; exactly one follows each. A child that exists has yet to execute its program.
struct Spawned {
    ProcessId id;
    Pid pid;
};
struct SpawnFailed {
    ProcessId id;
    process::SpawnError error;
};
/// The child has executed its program. May come late, and not at all when the process ends first.
struct Executed {
    ProcessId id;
};
/// One of our processes has been reaped.
struct Exited {
    ProcessId id;
    int status;                                  ///< as of waitpid(2)
    std::optional<process::SpawnError> error{};  ///< it never became the program: what failed between clone and execve
    bool was_oom_killed = false;
    std::optional<Pid> successor{};  ///< ProgramPolicy::forks: the one that goes on in its place
    bool leaves_rest = false;        ///< others of its tree live; see Supervisor::gives_time_to_rest()
};
/// A signal to this process of ours was refused with that errno, as by a lack of rights.
struct SignalFailed {
    ProcessId id;
    int error;
};
/// Nothing is left of a tree whose process has ended. Means something in ProcessState::clearing alone.
struct TreeEmpty {
    ProcessId id;
};
/// ProgramPolicy::forks: the process goes on as this one, which is a child of ours. Means something when
/// Supervisor::takes_main() says so.
struct MainFound {
    ProcessId id;
    Pid pid;
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
/// A signal to pass on to every process except auxiliary ones.
struct SignalReceived {
    int signo;
};
enum class Verb : std::uint8_t {
    start,    ///< processes that are held, have ended, or wait for the end of a backoff
    stop,     ///< and hold until it is started by command
    restart,  ///< stop it if it runs, then start it without a backoff
    renew,    ///< restart running processes, and no others
    reload,   ///< ProgramPolicy::change_signal for processes that are up; starting ones get it once they are
    signal,
};
/// What somebody asks for. Applies to all numbers of the program without `number`. A start of a scheduled program is a
/// run now. Ignored in a stop of all (except for a signal), and for a process that the configuration does not have.
struct Command {
    Verb verb;
    ProgramId program;
    std::optional<ProcessNumber> number{};
    int signo = 0;  ///< for Verb::signal
};
/// waitpid(2) has no child left to wait for, or action::Sweep has found none.
struct NoChildLeft {};
/// The deadline has passed. May come early or too often.
struct TimePassed {};

}  // namespace event

using Event =
    std::variant<event::ConfigurationAccepted, event::Spawned, event::SpawnFailed, event::Executed, event::Exited,
                 event::MainFound, event::Ready, event::WatchdogPing, event::ExtendTimeout, event::HelperEnded,
                 event::ScheduleDue, event::StopAsked, event::SignalReceived, event::Command, event::NoChildLeft,
                 event::TimePassed, event::TreeEmpty, event::SignalFailed>;

}  // namespace triton::launcher
