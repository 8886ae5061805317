#pragma once

#include "lib/process/raw_syscall.h"

struct sock_fprog;

namespace triton::process {

/// A limit as prlimit64(2) takes it.
struct ChildLimit {
    int resource;
    unsigned long values[2];  // soft, hard
};

/// What a child does to itself before execve, beside what every child does. Prepared once for a plan; null, 0 and false
/// mean: nothing to do.
struct ChildAttributes {
    char const* root_directory;
    char const* working_directory;  // of those without one of their own
    ChildLimit const* limits;
    unsigned limit_count;
    unsigned long const* cpu_mask;
    unsigned cpu_mask_bytes;
    unsigned const* groups;
    unsigned group_count;
    unsigned user;
    unsigned group;
    int umask;
    int nice;
    int parent_death_signal;
    char oom_score_adj[8];  // its text
    unsigned oom_score_adj_length;
    unsigned long drop_bounding;
    unsigned long inheritable;
    unsigned long ambient;
    sock_fprog const* seccomp;
    int landlock;  // descriptor, -1: none
    bool has_groups;
    bool has_group;
    bool has_user;
    bool has_umask;
    bool has_nice;
    bool has_parent_death_signal;
    bool has_capabilities;
    bool no_new_privileges;
    bool is_foreground;  // the terminal that its input is has its group in the foreground
};

/// A descriptor that the program finds under another number.
struct FdMove {
    int from;
    int to;
};

/// Where children that never became their program leave word: one word for each, in memory that both sides see. 0:
/// free. Only pages that were ever used are there.
struct FailureCells {
    unsigned long used;  // the words from there on have never been written
    unsigned long words[65535];

    static constexpr unsigned long pack(long pid, unsigned char stage, long error) {
        return static_cast<unsigned long>(pid) << 32 | static_cast<unsigned long>(stage) << 16 |
               static_cast<unsigned long>(error);
    }
    static constexpr long pid(unsigned long word) { return static_cast<long>(word >> 32); }
    static constexpr unsigned char stage(unsigned long word) { return static_cast<unsigned char>(word >> 16); }
    static constexpr int error(unsigned long word) { return static_cast<int>(word & 0xffff); }
};

/// A word that tells when a child with a copy of our memory has left it: the child writes its thread id there and
/// leaves the rest to the kernel, as for the owner of a robust mutex, since CLONE_CHILD_CLEARTID works only where the
/// memory has more than one user. Source: set_robust_list(2), Linux Documentation/locking/robust-futex-ABI.rst.
using ExecutionWord = unsigned;
inline constexpr ExecutionWord word_is_free = 0;
inline constexpr ExecutionWord word_is_given = 0x3fffffff;   ///< the child has not come to writing it: no thread id
inline constexpr ExecutionWord owner_has_left = 0x40000000;  ///< FUTEX_OWNER_DIED, by execve or by its end

struct ExecutionWords {
    unsigned next;  // where to look for a free one
    ExecutionWord words[65535];
};

/// What a child between clone and execve reads of its parent's memory (CLONE_VM), or of its own copy. With CLONE_VM the
/// parent does not touch it while `thread_id` is set; the kernel clears that when the child leaves this memory, by
/// execve or by its end (CLONE_CHILD_CLEARTID, set_tid_address(2)).
struct SpawnChild {
    char const* program;
    char** argv;
    char* const* envp;
    raw::SignalSet inherited_mask;
    raw::KernelSigaction const* inherited_sigchld;  // null: leave it
    raw::SignalSet to_default;                      // signals that it is not to ignore
    int orphan_signal;                              // 0: none
    int parent;                                     // pid, to see whether it died before the orphan signal was set
    int thread_id;
    FailureCells* failures;
    ExecutionWord* execution;  // null: nobody waits, or thread_id tells

    // Not in every start.
    ChildAttributes const* attributes;  // null: none
    char const* working_directory;      // instead of that of the attributes, which are there then; null: none
    int cgroup;                         // directory of the one to enter, -1: none
    unsigned long mark;                 // as RLIMIT_RTTIME; 0: none
    unsigned long mark_locks;           // the same as RLIMIT_LOCKS
    char const* input;                  // path of the file that the first of the moves is for; null: none
    FdMove* moves;
    unsigned move_count;
    bool has_terminal;       // it becomes the controlling one of a session of its own
    bool leaves_foreground;  // to whom has it, although the attributes want it
    char* listen_pid;        // room for the digits of our pid at the end of "LISTEN_PID=", null: none
    char* watchdog_pid;      // "WATCHDOG_PID="
};

/// Room for the digits of a pid and their NUL.
inline constexpr unsigned pid_room = 12;

/// The child's side of a start: never returns. Freestanding (see wrap.h): it runs beside its parent in one memory.
void run_spawn_child(void* spawn_child);

}  // namespace triton::process
