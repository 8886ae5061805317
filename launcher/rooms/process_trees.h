#pragma once

#include <expected>

#include <sys/types.h>

#include "launcher/children/children.h"
#include "launcher/children/sys.h"
#include "launcher/plan/launch_options.h"
#include "launcher/rooms/channels.h"
#include "launcher/rooms/foreground.h"
#include "launcher/rooms/pid_files.h"
#include "launcher/rooms/program_table.h"
#include "launcher/supervisor/supervisor.h"
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
                 PidFiles& pid_files, Foreground& foreground)
        : options_(options),
          sys_(sys),
          table_(table),
          children_(children),
          channels_(channels),
          pid_files_(pid_files),
          foreground_(foreground) {}

    /// Throws bad_alloc, and then nothing has been started. Errors: ENOENT at `execute` when its program can no longer
    /// be started; those of Channels::for_start() and Children::start().
    std::expected<Pid, process::SpawnError> start(ProcessId id);
    /// The process has not been reaped.
    void signal(action::Signal const& action);
    /// The process has ended and is not reaped: kills the rest of its tree. Does nothing where the plan leaves it
    /// alone, or where another process may be the program by now: see end().
    void before_reaping(ProcessId id, pid_t pid);
    /// For a program that forks: kills everything that it has started, whichever process was the main one.
    void end(ProcessId id);
    /// Signals everything that this process may signal, in all trees and outside of them, and reaps what ends by it.
    /// Does nothing unless that is a PID namespace of our own.
    void sweep(int signo);

private:
    std::expected<Pid, process::SpawnError> try_to_start(ProcessId id);
    [[nodiscard]] bool is_marked(ProgramPlan const& plan) const;
    [[nodiscard]] bool is_for_tree(action::Signal const& action) const;

    LaunchOptions const& options_;
    Sys& sys_;
    ProgramTable& table_;
    Children& children_;
    Channels& channels_;
    PidFiles& pid_files_;
    Foreground& foreground_;
};

}  // namespace triton::launcher
