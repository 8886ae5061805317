#pragma once

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton {

/// Both ends of a pipe(2), closed by execve(2).
struct Pipe {
    UniqueFd reader;
    UniqueFd writer;
};

/// Errors: those of pipe2(2), "cannot make a pipe: <reason>".
Result<Pipe> make_pipe();

}  // namespace triton
