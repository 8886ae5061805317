#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>

#include "config/policy.h"
#include "launcher/supervisor/restart_policy.h"
#include "lib/base/clock.h"
#include "lib/base/rare_list.h"
#include "lib/process/ids.h"

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

// The settings of a program.

enum class ProgramKind : std::uint8_t {
    service,    ///< all its numbers run all the time
    one_shot,   ///< each number runs to its end; exit code 0 is its success, and what its readiness means
    scheduled,  ///< runs when event::ScheduleDue says so, at most `count` of them at a time
};
using Restart = config::RestartWhen;
using config::HealthAction;
using config::OnChange;
using config::StopScope;
enum class Readiness : std::uint8_t {
    started,   ///< as soon as it has executed its program
    notified,  ///< event::Ready
    probed,    ///< Helper::readiness, until it succeeds
};

/// More than `count` starts within `interval` are given up before the one too many. Starts that a person, a schedule or
/// a changed configuration asks for begin the count anew. Each process remembers so many times: keep `count` small.
struct StartLimit {
    std::uint32_t count = 5;
    Duration interval = std::chrono::seconds(60);
    std::optional<int> exit_code{};  ///< the container ends with it; nullopt: only this process is given up

    bool operator==(StartLimit const&) const = default;
};

/// A check by one of the Helpers for it. The first probe comes `interval` after the process is ready, each other one
/// `interval` after the end of the one before.
struct Health {
    Duration interval = std::chrono::seconds(10);
    std::uint32_t retries = 3;                    ///< this many failures in a row are one too many
    Duration start_period{};                      ///< from the start of the process; failures within it do not count
    HealthAction action = HealthAction::restart;  ///< report: the process is not ready, either, until a probe succeeds

    bool operator==(Health const&) const = default;
};
inline constexpr std::size_t most_checks = 8;

/// One signal of a stop, and how long it is given.
struct StopStep {
    int signal = 15;
    Duration wait{};

    bool operator==(StopStep const&) const = default;
};

/// The defaults are those of the design's form: restarted for ever, nothing before the stop signal.
struct ProgramPolicy {
    std::uint32_t count = 1;
    ProgramKind kind = ProgramKind::service;
    /// Else its processes are held when a configuration brings it, until they are started by command. While it is held
    /// as a whole, neither readiness nor the end of the container depends on it.
    bool auto_start = true;
    Restart restart = Restart::always;
    Duration run_timeout{};  ///< one-shot, scheduled: from clone to a stop, a failure; 0: none
    bool makes_up = false;   ///< scheduled: of the runs that find all places taken, one comes when a place is free
    RareList<config::End> success_ends{};    ///< beside exit code 0; sorted
    RareList<config::End> permanent_ends{};  ///< not started again after these; sorted
    RestartPolicy backoff;
    Rare<StartLimit> start_limit{};
    bool critical = false;  ///< the container ends when one of its processes has ended and is not started again
    bool is_main = false;   ///< a stop without a fault ends with its exit code
    /// It serves the launcher itself. Whatever becomes of it neither ends the container nor keeps it; it counts for
    /// nothing, gets no signal that is passed on, and stops last. Such programs and others do not depend on each other.
    bool auxiliary = false;

    int stop_signal = 15;
    Duration stop_timeout = std::chrono::seconds(10);  ///< from the stop signal to SIGKILL
    /// Several signals, the first of them `stop_signal`; their waits are `stop_timeout` together. Empty: that one
    /// alone.
    RareList<StopStep> stop_steps{};
    Duration drain{};  ///< before Helper::pre_stop and the signal
    bool has_pre_stop = false;
    Duration pre_stop_timeout = std::chrono::seconds(10);  ///< enforced by the shell; here it only shares out time
    StopScope stop_scope = StopScope::process;
    /// Its first process ends well and leaves another one behind, which the shell finds (event::Exited::successor,
    /// event::MainFound) and which may do the same again. That one is the process from then on.
    bool forks = false;
    bool kills_tree = false;  ///< the shell kills what a process leaves behind when it reaps

    OnChange on_change = OnChange::keep;
    int change_signal = 1;          ///< for OnChange::signal, and Verb::reload
    bool is_told_of_files = false;  ///< Verb::reload comes for it
    bool has_on_failure = false;
    bool has_on_success = false;
    bool has_on_stop = false;                             ///< a completed one-shot is undone
    Duration on_stop_timeout = std::chrono::seconds(10);  ///< as pre_stop_timeout

    /// Acyclic. Every start waits for them, restarts too; every stop of all goes the other way.
    RareList<ProgramId> after;
    RareList<ProgramId> requires_;
    RareList<ProgramId> binds_to;  ///< each is in `requires_`, too: the program is stopped while one is not ready

    Readiness readiness = Readiness::started;
    Duration probe_interval = std::chrono::seconds(1);  ///< for Readiness::probed; the first is at the start
    Duration start_timeout{};                           ///< from clone to readiness, then SIGKILL; 0: none
    Duration watchdog{};                                ///< from readiness or the last ping to SIGABRT; 0: none
    RareList<Health> checks{};                          ///< at most `most_checks`

    bool is_sequential = false;         ///< a number starts when all lower ones are ready, have ended, or are held
    std::uint32_t max_unavailable = 0;  ///< a restart of all numbers takes at most this many out of service; 0: all

    bool operator==(ProgramPolicy const&) const = default;
    /// Whether a process that has failed for good by one would have failed by the other, too.
    [[nodiscard]] bool judges_like(ProgramPolicy const& other) const {
        auto const verdict = [](ProgramPolicy const& of) {
            return std::tie(of.restart, of.run_timeout, of.success_ends, of.permanent_ends, of.backoff, of.start_limit,
                            of.forks, of.readiness, of.start_timeout, of.watchdog, of.checks);
        };
        return verdict(*this) == verdict(other);
    }
};

struct ProgramSpec {
    ProgramId id{};
    ProgramPolicy policy;
    bool has_changed = true;  ///< differs from what runs; false: it would start the same

    bool operator==(ProgramSpec const&) const = default;
};

/// Of the launcher as a whole.
struct SupervisorPolicy {
    Duration stop_limit = std::chrono::seconds(30);     ///< for the whole stop; then the launcher ends anyway
    Duration sweep_timeout = std::chrono::seconds(10);  ///< PID 1: from SIGTERM to SIGKILL for all others
    bool is_pid_1 = false;                              ///< then everything left in the PID namespace is also ended
    std::uint64_t seed = 0;                             ///< of the jitter
};

/// Commands that accompany a process. At most one of each kind is under way for a process.
enum class Helper : std::uint8_t {
    pre_stop,
    on_failure,
    readiness,
    health,  ///< the first of ProgramPolicy::checks; the others are at the end, since an upgrade passes numbers on
    on_success,
    on_stop,
    health_2,
    health_3,
    health_4,
    health_5,
    health_6,
    health_7,
    health_8,
};
inline constexpr std::size_t helper_kinds = 13;

/// The helper of a check, and the other way round; nullopt: it is for something else.
constexpr Helper helper_of_check(std::size_t check) {
    return check == 0 ? Helper::health : static_cast<Helper>(static_cast<std::size_t>(Helper::health_2) + check - 1);
}
constexpr std::optional<std::size_t> check_of(Helper helper) {
    if (helper == Helper::health) return 0;
    if (helper < Helper::health_2) return std::nullopt;
    return static_cast<std::size_t>(helper) - static_cast<std::size_t>(Helper::health_2) + 1;
}
static_assert(static_cast<std::size_t>(helper_of_check(most_checks - 1)) == helper_kinds - 1);

}  // namespace triton::launcher
