#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "launcher/children/sys.h"
#include "lib/base/event_loop.h"

namespace triton::launcher {

/// Ends what a process without a control group has left behind outside of its process group: daemons in a
/// session of their own. As PID 1 or subreaper we become their parent when theirs dies.
///
/// They are found by a mark that every descendant inherits (process::StartFiles::mark): nothing that it does with
/// its environment, session or user removes it, and reading it needs no privilege. What a marked orphan has started
/// comes to us when it is killed, so the hunt continues until none is found. Programs decide how many orphans
/// there are: a round looks at `most_per_round`, and the next one continues.
class OrphanHunt {
public:
    /// Both outlive this.
    OrphanHunt(Sys& sys, EventLoop& loop);

    static constexpr std::size_t most_per_round = 256;
    static constexpr std::size_t most_marks = 1024;  ///< hunted at a time; the oldest gives way

    /// A mark that no other process has, and that a process with an earlier one may set.
    std::uint64_t next_mark();

    /// The process has ended and is not reaped. Kills its orphans that are there, at the latest in the next round, and
    /// continues until there are none.
    void end(pid_t process);
    /// The same for a mark whose first process has been reaped.
    void end_mark(std::uint64_t mark);
    /// An unknown child was reaped: its own children are ours now.
    void orphan_reaped();
    /// Before the launcher ends without being PID 1: waits a moment for what it hunts, whose parent will be another
    /// process.
    void finish();
    /// The events that follow belong to another round.
    void begin_round() { has_looked_ = false; }

private:
    void look_soon();
    void look();
    [[nodiscard]] bool is_hunted(pid_t child);

    Sys& sys_;
    EventLoop::Timer timer_;
    std::vector<std::uint64_t> marks_;
    std::vector<pid_t> children_;  // as of the pass that is under way
    std::size_t at_ = 0;
    bool has_found_ = false;
    bool has_looked_ = false;
    std::uint64_t last_mark_;
};

}  // namespace triton::launcher
