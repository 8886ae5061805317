#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace triton::verify {

/// Reads a whole file or pipe from its current position. Errors: `corrupt` beyond `maximum`; those of read(2).
Result<std::string> read_to_end(int source, std::uint64_t maximum);

/// Errors: those of fstat(2).
Result<std::uint64_t> size_of_file(int file);

}  // namespace triton::verify
