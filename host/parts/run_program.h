#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace triton::parts {

struct ProgramEnd {
    int exit_code = 0;        ///< 128 plus the signal when it was killed
    std::string output = {};  ///< standard output and standard error, at most 64 KiB
};

/// Runs a program without a shell, with `input` as its standard input, and waits for its end.
/// Errors: those of posix_spawn(3), "run <program>".
Result<ProgramEnd> run_program(std::vector<std::string> const& words, std::string_view input);

/// Runs a program likewise, without input, and passes each piece of its output on as it arrives, until `take` returns
/// false, or nobody reads from the pipe `reader` any more. Returns its exit code; nullopt when it was ended for that.
Result<std::optional<int>> stream_program(std::vector<std::string> const& words, int reader,
                                          std::function<bool(std::string_view piece)> const& take);

}  // namespace triton::parts
