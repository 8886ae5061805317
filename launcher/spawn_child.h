#pragma once

#include "launcher/raw_syscall.h"

namespace triton::launcher {

/// What a child between clone and execve shares with its parent's memory (CLONE_VM). The parent does not touch it while
/// `thread_id` is set; the kernel clears that when the child leaves this memory, by execve or by its end
/// (CLONE_CHILD_CLEARTID, set_tid_address(2)).
struct SpawnChild {
    char const* program;
    char** argv;
    char* const* envp;
    raw::SignalSet inherited_mask;
    raw::KernelSigaction const* inherited_sigchld;  // null: leave it
    int orphan_signal;                              // 0: none
    int parent;                                     // pid, to see whether it died before the orphan signal was set
    int thread_id;
    unsigned char failed_stage;  // SpawnStage, when `error` is set
    int error;                   // errno
};

/// The child's side of a start: never returns. Freestanding (see wrap.h): it runs beside its parent in one memory.
void run_spawn_child(void* spawn_child);

}  // namespace triton::launcher
