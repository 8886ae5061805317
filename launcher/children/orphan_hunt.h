#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "launcher/children/sys.h"
#include "launcher/supervisor/policy.h"
#include "lib/base/event_loop.h"
#include "lib/process/cgroup.h"

namespace triton::launcher {

/// Ends what a process without a control group has left behind outside of its process group: daemons in a
/// session of their own. As PID 1 or subreaper we become their parent when theirs dies.
///
/// They are found by a mark that every descendant inherits (process::MarkLimits): nothing that it does with
/// its environment, session or user removes it, and reading it needs no privilege. Orphans of the first look get
/// SIGKILL. If their ends bring up others, all that carry the mark are stopped first, wherever they are, until none
/// is new, and killed then: what is stopped starts nothing more, so that a tree which keeps forking is not faster than
/// we are. Programs decide how many processes there are: a round looks at `most_per_round`, and the next one continues.
class OrphanHunt {
public:
    /// Both outlive this.
    OrphanHunt(Sys& sys, EventLoop& loop);

    static constexpr std::size_t most_per_round = 256;
    static constexpr std::size_t most_marks = 1024;  ///< hunted at a time; the oldest gives way
    static constexpr int most_stops = 64;  ///< passes over all processes before those that are known are killed

    /// A mark that no other process has, and that a process with an earlier one may set.
    std::uint64_t next_mark();

    /// Nothing with this mark may live on. Kills the orphans that are there, at the latest in the next round, and
    /// continues until there are none. `owner`: the process that was started with it.
    /// Returns whom of those that were looked at now it could not kill.
    process::RefusedSignals end_mark(std::uint64_t mark, ProcessId owner);
    /// An unknown child was reaped: its own children are ours now.
    void orphan_reaped();
    /// Whether something that this process has left behind may live.
    [[nodiscard]] bool is_hunting(ProcessId owner) const;
    template <class Use>
    void for_each(Use use) const {
        for (std::size_t at = 0; at < marks_.size(); ++at)
            use(marks_[at], owners_[at]);
    }
    /// Before the launcher ends without being PID 1: waits a moment for what it hunts, whose parent will be another
    /// process.
    void finish();
    /// The events that follow belong to another round.
    void begin_round() { has_looked_ = false; }

private:
    enum class Pass : std::uint8_t { children, stop_all, kill_all };

    void look_soon();
    void look();
    void begin_pass();
    bool visit(pid_t pid);
    void end_pass();
    void begin_anew();

    Sys& sys_;
    EventLoop::Timer timer_;
    std::vector<std::uint64_t> marks_;
    std::vector<ProcessId> owners_;  // of each mark
    Pass pass_ = Pass::children;
    std::vector<pid_t> list_;  // as of the pass that is under way
    std::size_t at_ = 0;
    bool has_found_ = false;           // in this pass
    int stops_ = 0;                    // passes of stop_all, one behind the other
    bool is_second_ = false;           // orphans have been killed, and others may have come up
    std::unordered_set<pid_t> known_;  // stopped
    Duration rest_{};                  // in which those that were killed die
    TimePoint rests_until_{};
    bool has_looked_ = false;
    process::RefusedSignals refused_;  // in this look
    std::uint64_t last_mark_;
};

}  // namespace triton::launcher
