#pragma once

#include <string>

#include <sys/types.h>

#include "lib/base/result.h"

namespace triton::cri::monitor {

/// The word by which triton-pod is told to be one.
inline constexpr char first_process_word[] = "first-process";

/// Starts the first process of a new PID namespace, which the containers of a pod share. It reaps what loses its parent
/// there, and is all that this namespace lives by; it ends with us. Containers that may trace it get at nothing of the
/// host: its program is a sealed copy of ours, its root is an empty directory, and it has no capability.
/// `place`: any directory. Errors: those of clone(2), memfd_create(2), pivot_root(2), execveat(2).
Result<pid_t> start_first_process(std::string const& place);

/// What it does after that.
[[noreturn]] void be_first_process();

}  // namespace triton::cri::monitor
