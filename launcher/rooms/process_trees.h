#pragma once

#include <expected>
#include <vector>

#include <sys/types.h>

#include "launcher/children/children.h"
#include "launcher/children/sys.h"
#include "launcher/plan/launch_options.h"
#include "launcher/rooms/channels.h"
#include "launcher/rooms/foreground.h"
#include "launcher/rooms/left_trees.h"
#include "launcher/rooms/pid_files.h"
#include "launcher/rooms/program_table.h"
#include "launcher/rooms/rooms.h"
#include "launcher/supervisor/supervisor.h"
#include "lib/base/event_loop.h"
#include "lib/process/cgroup.h"
#include "lib/process/spawn.h"

namespace triton::launcher {

/// The room of the processes as trees, each with all that it has started: how one is started so that its tree can be
/// known, whom a signal is for, and what a tree leaves behind when its process ends.
///
/// A tree is known by its control group. Where there are none it is known by the process group, for as long as its
/// first process is not reaped, and by the mark that all of it inherits (process::StartFiles::mark): what has left the
/// process group is found by that.
class ProcessTrees {
public:
    /// All outlive this.
    ProcessTrees(LaunchOptions const& options, Sys& sys, ProgramTable& table, Children& children, Channels& channels,
                 PidFiles& pid_files, LeftTrees& left_trees, Supervisor const& supervisor, Foreground& foreground,
                 EventLoop& loop, ControlLine const& line)
        : options_(options),
          sys_(sys),
          table_(table),
          children_(children),
          channels_(channels),
          pid_files_(pid_files),
          left_trees_(left_trees),
          supervisor_(supervisor),
          foreground_(foreground),
          line_(line),
          leftovers_timer_(loop, [this] { look_at_leftovers(); }) {}

    /// Throws bad_alloc, and then nothing has been started. Errors: ENOENT at `execute` when its program can no longer
    /// be started; those of Channels::for_start() and Children::start().
    std::expected<Pid, process::SpawnError> start(ProcessId id);
    /// The process has not been reaped. Returns 0, or the errno with which the process itself could not be signalled.
    int signal(action::Signal const& action);
    /// Returns who could not be signalled, as far as that is known now.
    process::RefusedSignals signal(action::SignalRest const& action);
    /// The process has ended and is not reaped: kills the rest of its tree, unless that has time to end. Does nothing
    /// where the plan leaves it alone, or where another process may be the program by now: see leave().
    void before_reaping(ProcessId id, pid_t pid);
    /// The process has been reaped, and no other one is the program in its place. Kills the rest of the tree of a
    /// program that forks, unless that has time to end. Returns whether there is a rest that has time.
    bool leave(ProcessId id);
    /// For a program that forks: kills everything that it has started, whichever process was the main one.
    void end(ProcessId id);
    /// Whether what a process has left behind, which has got SIGKILL, still lives. While it is `ending`, clients of the
    /// control line are called to ask again.
    Leftovers leftovers(ProcessId id);
    /// Signals everything that this process may signal, in all trees and outside of them, and reaps what ends by it.
    /// Does nothing unless that is a PID namespace of our own.
    void sweep(int signo);

private:
    std::expected<Pid, process::SpawnError> try_to_start(ProcessId id);
    [[nodiscard]] bool is_marked(ProgramPlan const& plan) const;
    [[nodiscard]] bool has_time(ProcessId id, std::uint64_t mark) const;
    [[nodiscard]] bool is_for_tree(action::Signal const& action) const;
    void look_at_leftovers();

    LaunchOptions const& options_;
    Sys& sys_;
    ProgramTable& table_;
    Children& children_;
    Channels& channels_;
    PidFiles& pid_files_;
    LeftTrees& left_trees_;
    Supervisor const& supervisor_;
    Foreground& foreground_;
    ControlLine const& line_;
    struct Awaited {
        ProcessId id;
        TimePoint since;
        bool is_asked_for = true;  // since the last look
    };
    std::vector<Awaited> awaited_;  // whose leftovers somebody waits for
    EventLoop::Timer leftovers_timer_;
};

}  // namespace triton::launcher
