#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <sys/types.h>

#include "launcher/children/children.h"
#include "launcher/children/sys.h"
#include "launcher/rooms/channels.h"
#include "launcher/rooms/rooms.h"
#include "launcher/upgrade/upgrade_state.h"
#include "lib/base/event_loop.h"
#include "lib/process/cgroup.h"

namespace triton::launcher {

/// The component of trees whose process has ended while others of the tree live and have time to end: which they are,
/// how they are signalled, and event::TreeEmpty when none is left.
///
/// With control groups a tree is its group. Without them it is known by its mark (process::StartFiles::mark): what the
/// process has left behind has become our child, or descends from one that has, so a tree is empty when none of our
/// children has its mark. Either can only change when a child of ours is reaped; that is when we look. A look every
/// `rescan` finds what happens in other ways, for example that a process leaves the group.
///
/// Programs choose how many trees and orphans there are: each round looks at `most_per_round` of them.
class LeftTrees {
public:
    static constexpr std::size_t most_per_round = 256;
    static constexpr milliseconds rescan{250};

    /// All outlive this.
    LeftTrees(Sys& sys, EventLoop& loop, Children const& children, Channels& channels, EventSink& events);

    /// Its process is about to be reaped, or to be given up as the program. `leader`: that process, 0 when it is not
    /// known; `mark`: of its start, not needed with control groups.
    void note(ProcessId id, pid_t leader, std::uint64_t mark);
    /// The process has been reaped. Returns whether others of its tree may be left: if it was noted, and was not empty.
    bool reaped(ProcessId id);
    /// To all that is left of it. Returns who could not be signalled.
    process::RefusedSignals signal(ProcessId id, int signo);
    /// Nobody waits for it any more. Returns its mark.
    std::uint64_t forget(ProcessId id);
    /// A child that nobody knows was reaped: it may have been the last of its tree, and its children are ours now.
    void orphan_reaped() {
        if (!trees_.empty()) look_soon();
    }

    // For an upgrade.
    void save(UpgradeState& state) const { state.left_trees = trees_; }
    void restore(UpgradeState const& state);

private:
    using Tree = UpgradeState::LeftTree;
    std::vector<Tree>::iterator find(ProcessId id);
    [[nodiscard]] bool is_quickly_known_to_be_empty(Tree const& tree);
    [[nodiscard]] bool is_stranger(pid_t child) const;
    void look_soon();
    void look();
    [[nodiscard]] bool is_pass_over();
    void conclude();

    Sys& sys_;
    EventLoop& loop_;
    Children const& children_;
    Channels& channels_;
    EventSink& events_;
    EventLoop::Timer timer_;
    std::vector<Tree> trees_;
    // The pass over all trees, or over all our children, that is under way.
    std::vector<ProcessId> looked_for_;
    std::vector<pid_t> pids_;
    std::size_t at_ = 0;
    bool is_in_pass_ = false;
    bool is_to_look_again_ = false;
    TimePoint round_{};
    unsigned looks_in_round_ = 0;
};

}  // namespace triton::launcher
