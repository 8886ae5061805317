#pragma once

#include <string>

#include <sys/types.h>

#include "host/cri/monitor/user_mapping.h"
#include "lib/base/result.h"

namespace triton::cri::monitor {

/// The word by which triton-pod is told to be one.
inline constexpr char first_process_word[] = "first-process";

/// What the first process of a pod is the first one of.
struct FirstProcess {
    std::string place;  ///< any directory
    /// A PID namespace, which the containers of the pod share.
    bool has_pid = false;
    /// A user namespace, which then owns the network, IPC and UTS namespaces of the pod.
    UserMapping users = {};
    std::string hostname = {};  ///< with a user namespace
};

/// Starts it: it reaps what loses its parent in its PID namespace, is all that its namespaces live by, and ends with
/// us. Containers that may trace it get at nothing of the host: its program is a sealed copy of ours, its root is an
/// empty directory, it has no capability, and in a user namespace its user is one of that. Errors: those of clone(2),
/// memfd_create(2), pivot_root(2), execveat(2), and of writing /proc/<pid>/uid_map.
Result<pid_t> start_first_process(FirstProcess const& what);

/// What it does after that.
[[noreturn]] void be_first_process();

}  // namespace triton::cri::monitor
