#include "launcher/rooms/process_trees.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <sys/resource.h>

namespace triton::launcher {

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

/// Whether a mark tells what a process has started. That is so where no control group does, except for a program whose
/// own limit takes the place of the mark.
bool ProcessTrees::is_marked(ProgramPlan const& plan) const {
    return plan.policy.kills_tree && !channels_.has_groups() && plan.start &&
           std::ranges::find(plan.start->attributes().limits, RLIMIT_RTTIME, &process::ResourceLimit::resource) ==
               plan.start->attributes().limits.end();
}

/// Whether the signal is for the whole tree, as SIGKILL always is.
bool ProcessTrees::is_for_tree(action::Signal const& action) const {
    return action.why == action::Why::kill || action.scope == StopScope::tree ||
           (options_.kill_group && table_[action.id.program].name.empty());
}

void ProcessTrees::signal(action::Signal const& action) {
    auto const pid = static_cast<pid_t>(action.pid);
    // The process may not be in its group yet, or may have left it while others are still in it: then it gets the
    // signal as well. signal_group() may miss processes that are just being made, and a group that is gone has no
    // members. So SIGKILL is in any case sent to the process itself, too.
    bool const is_kill = action.why == action::Why::kill;
    bool const is_for_all = is_for_tree(action);
    if (is_kill) {
        channels_.kill_group(action.id);
    } else if (is_for_all && channels_.signal_group(action.id, pid, action.signo)) {
        return;
    }
    bool const reached_group = is_for_all && sys_.signal(-pid, action.signo) == 0;
    if (!reached_group || is_kill) (void)sys_.signal(pid, action.signo);
}

void ProcessTrees::before_reaping(ProcessId id, pid_t pid) {
    auto const& plan = table_[id.program].plan;
    if (!plan || !plan->policy.kills_tree) return;
    if (plan->policy.forks && pid_files_.has(id)) return;  // others of its tree may go on as the program
    (void)sys_.signal(-pid, SIGKILL);
    channels_.kill_group(id);
    if (is_marked(*plan)) children_.end_orphans_of(pid);
}

void ProcessTrees::end(ProcessId id) {
    channels_.kill_group(id);
    if (std::uint64_t const mark = pid_files_.ended(id)) children_.end_marked(mark);
}

void ProcessTrees::sweep(int signo) {
    if (sys_.own_pid() != 1) return;
    (void)sys_.signal(-1, signo);
    if (signo != SIGKILL) (void)sys_.signal(-1, SIGCONT);
    children_.reap();
}

}  // namespace triton::launcher
