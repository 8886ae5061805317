#pragma once

#include <cstddef>
#include <string>

#include "lib/base/result.h"

namespace triton {

/// The content of a file.
/// Errors: those of open(2) and read(2), "open <path>"; `invalid` when there are more than `limit` bytes; EISDIR.
/// A FIFO without a writer is not waited for: it reads as empty.
Result<std::string> read_file(std::string const& path, std::size_t limit);

/// The same of a file that an operator names. A FIFO is waited for, as by cat(1): a shell's <(...) is one.
Result<std::string> read_input_file(std::string const& path, std::size_t limit);

/// The same for an open file (borrowed), from its current position. `path`: for messages.
Result<std::string> read_open_file(int fd, std::string const& path, std::size_t limit);

/// The same of standard input, to its end.
Result<std::string> read_standard_input(std::size_t limit);

}  // namespace triton
