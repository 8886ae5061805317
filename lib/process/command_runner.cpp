#include "lib/process/command_runner.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <sys/wait.h>

namespace triton::process {

CommandRunner::CommandRunner(Kill kill, Done done) : kill_(std::move(kill)), done_(std::move(done)) {}

CommandRunner::Running* CommandRunner::find(Key key) {
    auto const at = std::ranges::find(running_, key, &Running::key);
    return at == running_.end() ? nullptr : &*at;
}

/// Kills everything that the command has started. It may not have made its group yet.
void CommandRunner::kill_group(Running const& run) const {
    if (kill_(-run.pid, SIGKILL) != 0) (void)kill_(run.pid, SIGKILL);
}

void CommandRunner::run(Key key, milliseconds timeout, TimePoint now, Spawn const& spawn, Former former) {
    Running* const other = find(key);
    bool const may_be_left = other && other->is_answered && former == Former::left &&
                             std::ranges::count(running_, left_key, &Running::key) < most_left;
    if (may_be_left)
        other->key = left_key;
    else if (other)
        return done_(key, {How::not_started, 0, {ErrorKind::busy, {}, "the previous one has not ended", {}, 0}});
    running_.reserve(running_.size() + 1);  // first: once there is a child, it must not get lost
    Result<pid_t> pid = spawn();
    if (!pid) return done_(key, {How::not_started, 0, std::move(pid.error())});
    running_.push_back({key, *pid, timeout > milliseconds::zero() ? std::optional(now + timeout) : std::nullopt});
}

/// Kills the command and reports now how it ended. Its entry stays until it has been reaped.
void CommandRunner::answer(Running& run, How how) {
    kill_group(run);
    run.deadline.reset();
    run.is_answered = true;
    done_(run.key, {how, 0, {}});
}

void CommandRunner::cancel(Key key) {
    Running* const run = find(key);
    if (run && !run->is_answered) answer(*run, How::cancelled);
}

void CommandRunner::before_reaping(pid_t pid) const {
    // What the command has left behind would go on without a limit.
    if (std::ranges::find(running_, pid, &Running::pid) != running_.end()) (void)kill_(-pid, SIGKILL);
}

bool CommandRunner::on_exit(pid_t pid, int status, std::optional<SpawnError> const& not_executed) {
    auto const at = std::ranges::find(running_, pid, &Running::pid);
    if (at == running_.end()) return false;
    Running const run = *at;
    running_.erase(at);
    if (run.is_answered) return true;
    bool const by_signal = WIFSIGNALED(status);
    done_(run.key, {by_signal ? How::signalled : How::exited,
                    by_signal ? WTERMSIG(status) : WEXITSTATUS(status),
                    {},
                    not_executed});
    return true;
}

std::optional<TimePoint> CommandRunner::next_deadline() const {
    std::optional<TimePoint> next;
    for (Running const& run : running_) {
        if (run.deadline && (!next || *run.deadline < *next)) next = run.deadline;
    }
    return next;
}

void CommandRunner::time_passed(TimePoint now) {
    // Iterates by position, since `done` may run another command.
    for (std::size_t i = 0; i < running_.size(); ++i) {
        if (running_[i].deadline && *running_[i].deadline <= now) answer(running_[i], How::timed_out);
    }
}

}  // namespace triton::process
