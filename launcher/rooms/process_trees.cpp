#include "launcher/rooms/process_trees.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

constexpr Duration time_for_leftovers = std::chrono::seconds(5);  // after SIGKILL, for what a process has left behind
constexpr Duration between_leftover_looks = milliseconds(20);

}  // namespace

std::expected<Pid, process::SpawnError> ProcessTrees::start(ProcessId id) {
    auto pid = try_to_start(id);
    if (!pid) channels_.start_failed(id);
    return pid;
}

std::expected<Pid, process::SpawnError> ProcessTrees::try_to_start(ProcessId id) {
    children_.make_room_for_a_start();  // all allocations come first: an exception must not lose a child
    ProgramTable::Entry& program = table_[id.program];
    if (!program.plan || !program.plan->start)
        return std::unexpected(process::SpawnError{process::SpawnStage::execute, ENOENT});
    program.note_start(id.number);
    auto hands = channels_.for_start(id);
    if (!hands) return std::unexpected(hands.error());
    if (is_marked(*program.plan)) hands->files.mark = children_.next_mark();
    if (program.plan->pid_file) {
        pid_files_.starting(id, hands->files.mark);
    } else {
        (void)pid_files_.ended(id);  // of a configuration before
    }
    bool const is_foreground = program.plan->start->attributes().is_foreground;
    hands->files.leaves_foreground = is_foreground && !foreground_.is_free();
    auto const pid = children_.start(id, program.plan->start, hands->files);
    if (pid && is_foreground) foreground_.started(id, static_cast<pid_t>(*pid));
    return pid;
}

/// Whether a mark tells what a process has started. That is so where no control group does. A program's own limits may
/// take the place of one half of the mark, or of both.
bool ProcessTrees::is_marked(ProgramPlan const& plan) const {
    return plan.policy.kills_tree && !channels_.has_groups() && plan.start;
}

/// Whether the signal is for the whole tree, as SIGKILL always is.
bool ProcessTrees::is_for_tree(action::Signal const& action) const {
    return action.why == action::Why::kill || action.scope == StopScope::tree ||
           (options_.kill_group && table_[action.id.program].name.empty());
}

int ProcessTrees::signal(action::Signal const& action) {
    auto const pid = static_cast<pid_t>(action.pid);
    // The process may not be in its group yet, or may have left it while others are still in it: then it gets the
    // signal as well. signal_group() may miss processes that are just being made, and a group that is gone has no
    // members. So SIGKILL is in any case sent to the process itself, too.
    bool const is_kill = action.why == action::Why::kill;
    bool const is_for_all = is_for_tree(action);
    if (is_kill) {
        channels_.kill_group(action.id);
    } else if (is_for_all && channels_.signal_group(action.id, pid, action.signo).has_leader) {
        return sys_.signal(pid, 0);  // the group does not say who could not be signalled
    }
    bool const reached_group = is_for_all && sys_.signal(-pid, action.signo) == 0;
    return reached_group && !is_kill ? 0 : sys_.signal(pid, action.signo);
}

void ProcessTrees::before_reaping(ProcessId id, pid_t pid) {
    auto const& plan = table_[id.program].plan;
    if (!plan || !plan->policy.kills_tree) return;
    if (plan->policy.forks && pid_files_.has(id)) return;  // others of its tree may go on as the program
    std::uint64_t const mark = is_marked(*plan) ? children_.mark_of(pid) : 0;
    if (has_time(id, mark)) return left_trees_.note(id, pid, mark);
    (void)sys_.signal(-pid, SIGKILL);
    channels_.kill_group(id);
    if (is_marked(*plan)) children_.end_orphans_of(pid);
}

/// Whether the rest of its tree has time to end. Without a control group and a mark nobody could say when it has ended.
bool ProcessTrees::has_time(ProcessId id, std::uint64_t mark) const {
    return supervisor_.gives_time_to_rest(id) && (channels_.has_groups() || (mark != 0 && sys_.adopts_orphans()));
}

bool ProcessTrees::leave(ProcessId id) {
    if (pid_files_.has(id)) {
        std::uint64_t const mark = pid_files_.mark_of(id);
        if (!has_time(id, mark)) {
            end(id);
            return false;
        }
        (void)pid_files_.ended(id);
        left_trees_.note(id, 0, mark);
    }
    return left_trees_.reaped(id);
}

process::RefusedSignals ProcessTrees::signal(action::SignalRest const& action) {
    // A stop signal may be SIGKILL, too: then the end of the tree is still waited for.
    if (action.why != action::Why::kill) return left_trees_.signal(action.id, action.signo);
    std::uint64_t const mark = left_trees_.forget(action.id);
    channels_.kill_group(action.id);
    return mark != 0 ? children_.end_marked(mark, action.id) : process::RefusedSignals{};
}

void ProcessTrees::end(ProcessId id) {
    channels_.kill_group(id);
    if (std::uint64_t const mark = pid_files_.ended(id)) (void)children_.end_marked(mark, id);
}

Leftovers ProcessTrees::leftovers(ProcessId id) {
    auto const known = std::ranges::find(awaited_, id, &Awaited::id);
    auto const& plan = table_[id.program].plan;
    bool const is_any = plan && plan->policy.kills_tree &&
                        (channels_.has_groups() ? channels_.has_group_members(id) : children_.is_ending_orphans_of(id));
    if (!is_any) {
        if (known != awaited_.end()) awaited_.erase(known);
        return Leftovers::none;
    }
    TimePoint const now = steady_clock::now();
    if (!leftovers_timer_.is_armed()) leftovers_timer_.arm(now + between_leftover_looks);
    if (known == awaited_.end()) {
        awaited_.push_back({id, now});
        return Leftovers::ending;
    }
    known->is_asked_for = true;
    return now - known->since < time_for_leftovers ? Leftovers::ending : Leftovers::stuck;
}

/// Nothing tells when a control group is empty, or when what nobody can end is given up. So who waits looks again.
void ProcessTrees::look_at_leftovers() {
    std::erase_if(awaited_, [](Awaited& one) { return !std::exchange(one.is_asked_for, false); });
    line_.state_changed();
}

void ProcessTrees::sweep(int signo) {
    if (sys_.own_pid() != 1) return;
    (void)sys_.signal(-1, signo);
    if (signo != SIGKILL) (void)sys_.signal(-1, SIGCONT);
    children_.reap();
}

}  // namespace triton::launcher
