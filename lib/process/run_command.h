#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace triton::process {

/// A program that is run to its end while the caller waits: for tools, never for a loop.
struct Command {
    std::vector<std::string> arguments;                        ///< the program first: a path, or a name that PATH has
    std::optional<std::vector<std::string>> environment = {};  ///< "NAME=value" each; none: ours
    int in = -1;                                               ///< borrowed; -1: /dev/null
    int out = -1;                                              ///< borrowed; -1: kept, see Completed::output
    std::vector<int> descriptors = {};  ///< borrowed; it has them as 3, 4 .., and no others of ours
    /// Time limit, including everything that it starts in its process group; none: no limit.
    std::optional<std::chrono::milliseconds> timeout = {};
    int cancel = -1;  ///< borrowed; once it is readable, that group is killed
    /// It gets SIGKILL when we are killed ourselves. It is executed by setpriv(1) then.
    bool dies_with_us = false;
    std::size_t most_output = 1U << 20;  ///< of each of its two streams; the rest is read and discarded
};

struct Completed {
    int exit_code = 0;
    int signal = 0;           ///< it was ended by that one; 0: it exited
    std::string output = {};  ///< its standard output, unless Command::out is given
    std::string errors = {};  ///< its standard error
    bool is_whole = true;     ///< neither of the two was longer than most_output

    [[nodiscard]] bool is_ok() const { return exit_code == 0 && signal == 0; }
};

/// Runs it as the leader of a process group of its own, with all signals as the system has them. Whatever of that group
/// is there when it has ended, or when its time is over, gets SIGKILL.
/// Errors: those of posix_spawn(3), "execute <program>"; `timeout`: "run <program>: did not end within 30 s";
/// `refused`: "cancelled". How it ended is not an error.
Result<Completed> run_command(Command const& command);

}  // namespace triton::process
