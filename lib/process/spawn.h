#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/process/ids.h"
#include "lib/process/spawn_child.h"
#include "lib/process/spawn_stage.h"
#include "lib/process/start_plan.h"

namespace triton::process {

/// What the launcher changed of itself and each child gets back.
struct Inherited {
    raw::SignalSet mask = 0;
    raw::KernelSigaction sigchld{};
    bool sigchld_was_ignored = false;
    raw::SignalSet ignored = 0;  ///< signals that we inherited as ignored, and leave so: all except SIGCHLD
};

/// What one start hands to its process. All descriptors are borrowed, close-on-exec, and may have any numbers.
struct StartFiles {
    int in = -1;  ///< -1: as ours, or `input`
    int out = -1;
    int err = -1;
    /// One argument: the path of a file or device that the child opens as its standard input, inside its root directory
    /// and with our rights. So nobody else waits for a file system that does not answer. Null: none.
    CommandTemplate const* input = nullptr;
    std::span<std::string const> variables = {};  ///< NAME=value, before those of the plan, so that these count
    std::span<int const> listen = {};             ///< as 3, 4 ..; as many as the plan's listen_names
    char const* notify_socket = nullptr;          ///< value of NOTIFY_SOCKET; null: none
    bool has_terminal = false;                    ///< `in` is one that nobody has yet, and it becomes the process's
    bool leaves_foreground = false;               ///< its group does not become the terminal's, against the plan
    int ready = -1;                               ///< as the plan's ready_target; -1: none
    int cgroup = -1;                              ///< directory of the cgroup v2 that it starts in; -1: ours
    /// Identifies its descendants later, by two limits that all of them inherit; see MarkLimits. 0: none.
    std::uint64_t mark = 0;
};

/// Marks are of this range: half a million years of microseconds.
inline constexpr std::uint64_t lowest_mark = std::uint64_t{1} << 62;
inline constexpr std::uint64_t highest_mark = (std::uint64_t{1} << 63) - 1;

/// The mark of a start as two limits that limit nothing: RLIMIT_RTTIME, the time that a real-time process may run
/// without a system call, is the mark itself, and falls from one start to the next. RLIMIT_LOCKS, which Linux has
/// ignored since 2.4.25, rises by as much. A process without CAP_SYS_RESOURCE can only lower its limits. So it can
/// take neither the mark of a later start (RLIMIT_LOCKS would have to rise) nor that of an earlier one.
/// Source: setrlimit(2).
class MarkLimits {
public:
    /// `locks`: our own hard limit, below which those of all children are. A launcher below another one may be so
    /// deep that nothing is left; then the mark is RLIMIT_RTTIME alone.
    explicit constexpr MarkLimits(std::uint64_t locks)
        : ours_(locks), lowest_(locks < 2 * span ? 0 : std::min(locks, lowest_mark + span) - span) {}
    static MarkLimits of_this_process();

    /// RLIMIT_LOCKS of a mark; 0: it is not set.
    [[nodiscard]] constexpr std::uint64_t locks_of(std::uint64_t mark) const {
        return lowest_ == 0 || mark == 0 ? 0 : lowest_ + (highest_mark - mark);
    }
    /// The mark of this RLIMIT_LOCKS; 0: it is none of ours.
    [[nodiscard]] constexpr std::uint64_t mark_of_locks(std::uint64_t locks) const {
        bool const is_one = lowest_ != 0 && locks >= lowest_ && locks - lowest_ < span;
        return is_one ? highest_mark - (locks - lowest_) : 0;
    }
    /// Whether a start has set this limit, or a process has lowered it; else it is as ours.
    [[nodiscard]] constexpr bool is_set(std::uint64_t locks) const { return locks != ours_; }

private:
    static constexpr std::uint64_t span = std::uint64_t{1} << 59;  // nanoseconds: marks fall by those since the boot

    std::uint64_t ours_;
    std::uint64_t lowest_;  // 0: too low
};

/// Starts that can be watched until their execve: the Spawner's, or those of a test's script.
class Starts {
public:
    /// A watched child that has left the state between clone and execve.
    struct Left {
        Pid pid;
        std::uint32_t round;
        bool has_failed;  ///< its error is there for take_error(); else it has executed its program, or was killed
    };

    virtual ~Starts() = default;
    /// Starts one process. With a `round`, its execve is watched, and take_left() gives that back.
    /// Errors: throws bad_alloc, before anything is started.
    virtual std::expected<Pid, SpawnError> spawn(std::shared_ptr<StartPlan const> const& plan, ProcessNumber number,
                                                 StartFiles const& files, std::optional<std::uint32_t> round) = 0;
    /// Looks at all watched children, and replaces the content of `left` by those that have left since the last call.
    /// `ended_round`: all of that round have left, as their pipe says.
    virtual void take_left(std::vector<Left>& left, std::optional<std::uint32_t> ended_round) = 0;
    /// It was reaped: its execve is no longer reported. Returns its round if take_left() had not reported it.
    virtual std::optional<std::uint32_t> forget(Pid pid) = 0;
    /// How many were started in all.
    [[nodiscard]] virtual std::uint64_t starts() const = 0;
};

/// Starts processes as cheaply as Linux allows: clone(2) with CLONE_VM but without CLONE_VFORK, so that nothing is
/// copied and the parent does not wait for execve; each child has a small stack of its own until it has left our
/// memory. A child that becomes somebody else there (its user, its cgroup, its OOM score) gets a copy of our memory
/// instead: see needs_own_memory() in spawn.cpp.
class Spawner final : public Starts {
public:
    /// `orphan_signal`: what a child gets when we die, 0 for none; a plan may say otherwise.
    Spawner(Inherited const& inherited, int orphan_signal);
    ~Spawner() override;
    Spawner(Spawner const&) = delete;
    Spawner& operator=(Spawner const&) = delete;

    /// Starts one process. What fails after clone(2) is known when the child has been reaped: see take_error().
    /// With a `round`, its execve is watched, and take_left() gives that back.
    /// Errors: throws bad_alloc, before anything is started.
    std::expected<Pid, SpawnError> spawn(std::shared_ptr<StartPlan const> const& plan, ProcessNumber number,
                                         StartFiles const& files = {},
                                         std::optional<std::uint32_t> round = {}) override;

    /// Of a child that was reaped with exit code 127: why it never became the program, if that is so.
    std::optional<SpawnError> take_error(Pid pid);

    void take_left(std::vector<Left>& left, std::optional<std::uint32_t> ended_round = {}) override;
    std::optional<std::uint32_t> forget(Pid pid) override;
    [[nodiscard]] std::uint64_t starts() const override { return starts_; }

    /// Gives memory back that only a burst of starts needed.
    void trim();

    /// Whether no child shares our memory any more, and none is watched.
    [[nodiscard]] bool is_idle();

    [[nodiscard]] MarkLimits const& mark_limits() const { return mark_limits_; }

    /// Bytes of the slots that there are, in use or not.
    [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_; }

private:
    struct Slot;
    struct Room;
    /// A child that was seen last between clone and execve, and either uses a slot or is watched.
    struct Child {
        Pid pid;
        Slot* slot;           // null: it has a copy of our memory
        ExecutionWord* word;  // of a copy, in memory that it shares
        std::uint32_t round;
        bool is_watched;
    };
    static constexpr std::size_t looks_per_start = 8;
    template <class Cells>
    static Cells* map_cells(int sharing);
    Slot* new_slot(std::size_t bytes);
    Slot* take_slot(std::size_t room);
    void prepare(Slot& slot, StartPlan const& plan, ProcessNumber number, StartFiles const& files,
                 Room const& room) const;
    void release(Slot* slot);
    void free_slot(Slot* slot);
    void make_room();
    ExecutionWord* take_word();
    [[nodiscard]] static bool has_left(Child const& child);
    [[nodiscard]] bool has_failed(Pid pid) const;
    void look(std::size_t most);
    void remove(std::size_t at);

    Inherited inherited_;
    int orphan_signal_;
    int own_pid_;
    MarkLimits mark_limits_;
    FailureCells* failures_;                   // of children that share our memory
    FailureCells* shared_failures_ = nullptr;  // of those that have their own; made for the first of them
    ExecutionWords* words_ = nullptr;          // of watched children that have a copy; made for the first of them
    Slot* free_ = nullptr;                     // ready for use
    std::size_t slot_bytes_ = 0;
    std::vector<Child> children_;  // in no order: one that is stuck before execve holds up no other
    std::size_t next_look_ = 0;
    std::vector<Left> left_;
    std::uint64_t starts_ = 0;
};

/// What was attempted, with the plan's own values: "enter the working directory /srv/web", "execute /usr/bin/web",
/// "become user 33". Goes after "cannot start process 1: cannot ".
std::string stage_text(SpawnStage stage, StartPlan const* plan = nullptr, ProcessNumber number = ProcessNumber{1});

}  // namespace triton::process
