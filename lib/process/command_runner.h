#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <sys/types.h>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/process/spawn_stage.h"

namespace triton::process {

/// Runs helper commands (probes, hooks), each with a time limit. It decides; starting and killing are given to it.
///
/// Every run() is answered by exactly one call of `done`: when the command ends, when its time is over, when it is
/// cancelled, or at once when it cannot be started. A command that is killed is waited for silently.
class CommandRunner {
public:
    using Key = std::uint64_t;  ///< the caller's: whose helper, and which

    enum class How : std::uint8_t { exited, signalled, timed_out, cancelled, not_started };
    struct Outcome {
        How how = How::exited;
        int code = 0;                                 ///< exit code or signal
        Error error = {};                             ///< not_started
        std::optional<SpawnError> not_executed = {};  ///< exited: it never became the program
        [[nodiscard]] bool is_ok() const { return how == How::exited && code == 0; }
    };

    /// Starts the command as the leader of a process group of its own.
    using Spawn = std::function<Result<pid_t>()>;
    /// kill(2).
    using Kill = std::function<int(pid_t, int)>;
    using Done = std::function<void(Key, Outcome const&)>;
    CommandRunner(Kill kill, Done done);

    /// What becomes of a killed one with the same key that has not been reaped.
    enum class Former : std::uint8_t {
        awaited,  ///< this one is refused, so that probes which hang in the kernel do not pile up
        left,     ///< it is left to its end, as long as no more than `most_left` are
    };
    static constexpr std::ptrdiff_t most_left = 64;

    /// Errors go to `done`: of `spawn`; "the previous one has not ended" while a killed one with this key is not
    /// reaped. `timeout` zero: no limit.
    void run(Key key, milliseconds timeout, TimePoint now, Spawn const& spawn, Former former = Former::awaited);
    /// Kills the group; `done` is called with `cancelled` before this returns. Nothing happens when none runs.
    void cancel(Key key);

    /// A child has ended and still has its pid, which is its group's: if it was a command of ours, the rest of the
    /// group is killed.
    void before_reaping(pid_t pid) const;
    /// A child was reaped: returns whether it was a command of ours. `not_executed`: why it never became the program.
    bool on_exit(pid_t pid, int status, std::optional<SpawnError> const& not_executed = {});
    [[nodiscard]] std::optional<TimePoint> next_deadline() const;
    void time_passed(TimePoint now);

    /// For an upgrade, and to protect them from the sweep at the end: all that have not been reaped.
    struct Running {
        Key key = 0;
        pid_t pid = 0;
        std::optional<TimePoint> deadline = {};  ///< none: no limit, or answered already
        bool is_answered = false;
    };
    [[nodiscard]] std::vector<Running> const& running() const { return running_; }
    void import_state(std::vector<Running> running) { running_ = std::move(running); }

private:
    static constexpr Key left_key = Key{1} << 63;  // of those that are left: no caller has so many

    Running* find(Key key);
    void kill_group(Running const& run) const;
    void answer(Running& run, How how);

    Kill kill_;
    Done done_;
    std::vector<Running> running_;
};

}  // namespace triton::process
