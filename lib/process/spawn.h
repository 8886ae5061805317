#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>

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
    raw::SignalSet ignored = 0;  ///< what we were started with as ignored, and leave so: all but SIGCHLD
};

/// What one start hands to its process. All descriptors are borrowed, close-on-exec, and may have any numbers.
struct StartFiles {
    int in = -1;  ///< -1: as ours
    int out = -1;
    int err = -1;
    std::span<int const> listen = {};     ///< as 3, 4 ..; as many as the plan's listen_names
    char const* notify_socket = nullptr;  ///< value of NOTIFY_SOCKET; null: none
    int ready = -1;                       ///< as the plan's ready_target; -1: none
    int cgroup = -1;                      ///< directory of the cgroup v2 that it starts in; -1: ours
};

/// Starts processes as cheaply as Linux allows: clone(2) with CLONE_VM but without CLONE_VFORK, so that nothing is
/// copied and the parent does not wait for execve; each child has a small stack of its own until it has left our
/// memory. A child that becomes somebody else there (its user, its cgroup, its OOM score) gets a copy of our memory
/// instead: see needs_own_memory() in spawn.cpp.
class Spawner {
public:
    /// `orphan_signal`: what a child gets when we die, 0 for none; a plan may say otherwise.
    Spawner(Inherited const& inherited, int orphan_signal);
    ~Spawner();
    Spawner(Spawner const&) = delete;
    Spawner& operator=(Spawner const&) = delete;

    /// Starts one process. What fails after clone(2) is known when the child has been reaped: see take_error().
    std::expected<Pid, SpawnError> spawn(std::shared_ptr<StartPlan const> const& plan, ProcessNumber number,
                                         StartFiles const& files = {});

    /// Of a child that was reaped with exit code 127: why it never became the program, if that is so.
    std::optional<SpawnError> take_error(Pid pid);

    /// Gives memory back that only a burst of starts needed.
    void trim();

    /// Whether no child shares our memory any more.
    [[nodiscard]] bool is_idle();

private:
    struct Slot;
    struct Room;
    static FailureCells* map_cells(int sharing);
    Slot* new_slot(std::size_t bytes);
    Slot* take_slot(std::size_t room);
    void prepare(Slot& slot, StartPlan const& plan, ProcessNumber number, StartFiles const& files,
                 Room const& room) const;
    void release(Slot* slot);
    void recycle();
    void free_slot(Slot* slot);

    Inherited inherited_;
    int orphan_signal_;
    int own_pid_;
    FailureCells* failures_;                   // of children that share our memory
    FailureCells* shared_failures_ = nullptr;  // of those that have their own; made for the first of them
    Slot* free_ = nullptr;                     // ready for use
    Slot* oldest_ = nullptr;                   // in use, in order of their start
    Slot* newest_ = nullptr;
};

/// What was attempted, with the plan's own values: "enter the working directory /srv/web", "execute /usr/bin/web",
/// "become user 33". Goes after "cannot start process 1: cannot ".
std::string stage_text(SpawnStage stage, StartPlan const* plan = nullptr);

}  // namespace triton::process
