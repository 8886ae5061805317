#pragma once

#include <algorithm>
#include <cstddef>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "launcher/children/orphan_hunt.h"
#include "launcher/children/sys.h"
#include "launcher/supervisor/supervisor.h"
#include "lib/base/event_loop.h"
#include "lib/log/log.h"
#include "lib/process/command_runner.h"
#include "lib/process/execution_watch.h"
#include "lib/process/spawn.h"

namespace triton::launcher {

/// The room of the children: which pid is whose, how one is started and reaped, and the helper commands with their time
/// limits. Nothing else waits for a child, so a pid that is known here cannot be reused yet.
///
/// Between a start that succeeded and its place in the table nothing allocates: a child does not get lost for lack of
/// memory. A restart allocates nothing at all.
class Children {
public:
    using Key = process::CommandRunner::Key;
    using Outcome = process::CommandRunner::Outcome;

    /// Gets the reports, from inside reap(), run_command() and cancel_command(), or by a timer.
    class Listener {
    public:
        virtual ~Listener() = default;
        /// The end of one process will be reported. May throw bad_alloc: then nothing is reaped.
        virtual void make_room_for_an_end() = 0;
        /// It has ended and is not reaped: its pid is still its own, and so is its process group.
        virtual void before_reaping(ProcessId id, pid_t pid) = 0;
        /// It has executed its program.
        virtual void process_executed(ProcessId id) = 0;
        /// `error`: why it never became the program.
        virtual void process_ended(ProcessId id, int status, std::optional<process::SpawnError> error) = 0;
        virtual void command_ended(Key key, Outcome const& outcome) = 0;
        virtual void no_child_left() = 0;
        /// A child that nobody knows was reaped: its own children are ours now.
        virtual void orphan_reaped() = 0;
    };

    /// All outlive this.
    Children(Sys& sys, EventLoop& loop, log::Log& log, Listener& listener);

    /// Errors: the kernel does not let us wait for children: "wait for children: Operation not permitted".
    [[nodiscard]] Result<> check();
    /// So that the restarts of `count` processes allocate nothing. Throws bad_alloc.
    void make_room(std::size_t count);
    /// Allocates what the next start() needs. Throws bad_alloc.
    void make_room_for_a_start();
    std::expected<Pid, process::SpawnError> start(ProcessId id, std::shared_ptr<process::StartPlan const> const& plan,
                                                  process::StartFiles const& files);

    /// See CommandRunner::run() and cancel().
    void run_command(Key key, milliseconds timeout, process::CommandRunner::Spawn const& spawn,
                     process::CommandRunner::Former former = process::CommandRunner::Former::awaited);
    void cancel_command(Key key);
    /// For run_command(). What has the mark of `files` ends with it. `owner`: the process that it is for. Errors:
    /// "cannot execute /bin/x: No such file or directory".
    Result<pid_t> spawn_command(std::shared_ptr<process::StartPlan const> const& plan, ProcessNumber number,
                                process::StartFiles const& files, ProcessId owner = nobody);

    /// For run_command(): see Sys::start_copy(). Errors: "cannot start a helper process: <reason>".
    Result<pid_t> start_copy(int kept, std::function<void()> const& work);

    /// See Sys::start_companion(). At the end of the container nobody waits for it as for other children.
    /// Errors: "cannot start a helper process: <reason>".
    Result<> start_companion(int kept, std::function<void()> const& work);
    /// See Sys::start_copy(). Nobody hears of its end, or waits for it at the end of the container.
    /// Errors: "cannot start a helper process: <reason>".
    Result<pid_t> start_unheard_copy(int kept, std::function<void()> const& work);
    [[nodiscard]] bool is_companion(pid_t pid) const {
        return std::ranges::find(companions_, pid) != companions_.end();
    }
    /// From now on there is no child left when only these are.
    void begin_sweep() { is_sweeping_ = true; }

    /// For a process without a control group: the mark that it is to be started with, and, when it has ended and is not
    /// reaped, the end of what carries it.
    [[nodiscard]] std::uint64_t next_mark() { return hunt_.next_mark(); }
    void end_orphans_of(pid_t pid);
    /// The mark that a process of ours was started with; 0: none, or no process of ours.
    [[nodiscard]] std::uint64_t mark_of(pid_t pid) const {
        auto const found = processes_.find(pid);
        return found == processes_.end() ? 0 : found->second.mark;
    }
    /// All that carry this mark, with which the process was started.
    process::RefusedSignals end_marked(std::uint64_t mark, ProcessId id) { return hunt_.end_mark(mark, id); }
    /// Whether something that this process has left behind may live.
    [[nodiscard]] bool is_ending_orphans_of(ProcessId id) const { return hunt_.is_hunting(id); }
    /// Calls `use` with each mark that is hunted, and with the process that was started with it.
    template <class Use>
    void for_each_hunt(Use use) const {
        hunt_.for_each(use);
    }
    /// See OrphanHunt.
    void finish_hunts() { hunt_.finish(); }
    /// SIGCHLD has come, of `pid` and perhaps of others: reaps ended ones. In a storm of orphans those are reaped
    /// at most a millisecond later.
    void note_end(pid_t pid) {
        if (!is_letting_die_ || processes_.contains(pid)) reap();
    }
    /// Reaps ended children: at most as many at a time as keep a round short, and the others in the next round.
    void reap();
    /// Reports the starts that have executed by now.
    void look_for_executions() { executions_.look(); }
    /// Starts from now on belong to another round.
    void end_round() { executions_.end_round(); }
    /// From now on each child is looked at before it is reaped.
    void look_before_reaping() { looks_first_ = true; }
    /// The process that a child of ours is; nullopt of helper commands and strangers.
    [[nodiscard]] std::optional<ProcessId> find(pid_t pid) const {
        auto const found = processes_.find(pid);
        return found == processes_.end() ? std::nullopt : std::optional(found->second.id);
    }
    /// Whether a child still shares our memory.
    [[nodiscard]] bool is_memory_shared() { return sys_.is_memory_shared(); }
    void give_memory_back() { sys_.give_memory_back(); }

    // For an upgrade.
    [[nodiscard]] std::vector<process::CommandRunner::Running> const& commands() const { return commands_.running(); }
    void adopt(std::vector<process::CommandRunner::Running> commands);
    /// The mark is that of mark_of(); none: a version before has not handed it on, and the process is asked.
    void adopt(ProcessId id, Pid pid, std::optional<std::uint64_t> mark);
    [[nodiscard]] std::vector<pid_t> const& companions() const { return companions_; }
    void adopt_companions(std::vector<pid_t> companions) { companions_ = std::move(companions); }

    // Programs that fork.
    /// The process goes on as this child of ours. Its former one (none: it has been reaped) is an orphan like any
    /// other.
    void follow(ProcessId id, std::optional<Pid> former, Pid pid);
    /// Whether a child is one of our processes, helper commands or companions.
    [[nodiscard]] bool is_known(pid_t pid) const;
    /// Whether that is a helper command.
    [[nodiscard]] bool is_command(pid_t pid) const;

private:
    struct Process {
        ProcessId id;
        std::uint64_t mark = 0;  // that it was started with; it may have changed its own limits
    };
    using Processes = std::unordered_map<pid_t, Process>;

    static constexpr ProcessId nobody{ProgramId{~std::uint32_t{0}}, ProcessNumber{0}};

    std::optional<Sys::Dead> next_dead();
    void end_orphans_of_command(pid_t pid);
    [[nodiscard]] std::uint64_t own_mark(pid_t pid);
    bool reaped(Sys::Dead dead);
    void let_die(int orphans);
    bool are_only_companions_left();
    Result<pid_t> as_companion(std::expected<pid_t, int> pid);
    void executed(Pid pid);
    void arm() { command_timer_.arm(commands_.next_deadline()); }

    Sys& sys_;
    log::Log& log_;
    Listener& listener_;
    Processes processes_;
    std::vector<Processes::node_type> spare_nodes_;  // so that a restart allocates nothing
    process::CommandRunner commands_;
    std::vector<std::pair<pid_t, Process>> command_marks_;  // of commands that have one
    EventLoop::Timer command_timer_;
    EventLoop::Timer reap_timer_;
    OrphanHunt hunt_;
    process::ExecutionWatch executions_;
    std::chrono::steady_clock::time_point storm_since_;
    int storm_size_ = 0;           // orphans since then
    bool is_letting_die_ = false;  // the timer reaps
    bool looks_first_ = false;
    bool is_sweeping_ = false;
    std::vector<pid_t> companions_;
    std::vector<pid_t> living_;  // all children, of one look
};

}  // namespace triton::launcher
