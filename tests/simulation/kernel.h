#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "launcher/supervisor/supervisor.h"
#include "tests/simulation/random.h"

namespace triton::simulation {

using launcher::Helper;
using launcher::Pid;
using launcher::ProcessId;

/// One of the launcher's children, from clone until it is reaped.
struct Child {
    ProcessId id{};
    Pid pid{};
    int stop_signal = 0;    ///< what it takes for a request to end
    bool is_deaf = false;   ///< ignores every signal but SIGKILL
    bool is_stuck = false;  ///< in an uninterruptible sleep: not even SIGKILL ends it yet
    bool is_mute = false;   ///< says neither that it is ready nor that it is alive
    bool has_executed = false;
    bool is_known = false;  ///< that it has executed
    bool is_killed = false;
    bool is_oom_killed = false;
    std::optional<int> status{};  ///< it has ended, and waits to be reaped
    std::optional<process::SpawnError> error{};
};

/// A helper's command, from RunHelper until its result is told.
struct Command {
    ProcessId id{};
    Helper helper{};
    bool hangs = false;  ///< ends by cancellation or by the shell's timeout alone
    bool is_cancelled = false;
};

/// What the supervisor sees of a kernel: children, helpers, orphans, and as few pids as possible, so that they are used
/// again soon. It decides how a signal ends; when something happens is the episode's choice.
class Kernel {
public:
    Kernel(Random& random, bool is_rude) : random_(random), is_rude_(is_rude) {}

    [[nodiscard]] std::vector<Child> const& children() const { return children_; }
    [[nodiscard]] std::vector<Command> const& commands() const { return commands_; }
    [[nodiscard]] bool has_orphans() const { return orphans_ > 0; }
    /// Processes that have ended while others of their trees live.
    [[nodiscard]] std::vector<ProcessId> const& trees() const { return trees_; }
    [[nodiscard]] bool has_tree(ProcessId id) const { return std::ranges::find(trees_, id) != trees_.end(); }
    [[nodiscard]] Child const* find(ProcessId id) const;
    [[nodiscard]] Child const* find(Pid pid) const;
    [[nodiscard]] Command const* find(ProcessId id, Helper helper) const;

    /// The pid that was freed last comes first in half of the cases: the worst case for a signal that comes too late.
    Child& clone(ProcessId id, int stop_signal);
    /// What comes of its execve, some time after clone.
    void execute(std::size_t child);
    void fail_to_execute(std::size_t child, process::SpawnError error);
    /// Whoever watches the launcher's children is told so.
    void tell_executed(std::size_t child);
    void end(std::size_t child, int status);
    void end_by_oom(std::size_t child);
    void wake(std::size_t child);
    Child reap(std::size_t child);
    /// A child of a program that forks: the one that the program goes on as.
    Pid leave_behind(ProcessId id, int stop_signal);
    /// It is none of the launcher's processes any more: killed, or an orphan that nobody asks for.
    void forget(Pid pid);
    void signal(Pid pid, int signo);
    void leave_tree(ProcessId id) { trees_.push_back(id); }
    void empty_tree(ProcessId id) { std::erase(trees_, id); }

    void run(ProcessId id, Helper helper);
    void cancel(ProcessId id, Helper helper);
    Command end_command(std::size_t command);

    void add_orphans(std::uint64_t count) { orphans_ += count; }
    void end_orphans() { orphans_ = 0; }
    /// kill(-1, signo); a deaf orphan survives anything but SIGKILL.
    void sweep(int signo);

private:
    [[nodiscard]] bool is_used(int pid) const;

    Random& random_;
    bool is_rude_;
    std::vector<Child> children_;
    std::vector<Command> commands_;
    std::vector<ProcessId> trees_;
    std::uint64_t orphans_ = 0;
    int last_freed_ = 0;
};

}  // namespace triton::simulation
