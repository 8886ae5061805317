#pragma once

#include <cstdint>

#include <sys/stat.h>

#include "lib/base/result.h"

namespace triton::storage {

/// A part of a file that is not a hole.
struct Extent {
    off_t begin;
    off_t end;
};

/// The first extent at or after an offset; an empty one at the end of the file. A file system without holes says that
/// everything is data, and so do we for a file that has as many blocks as it needs.
Extent next_extent(int file, struct stat const& status, off_t at);

/// Copies the content of a file into an empty one, by copy_file_range(2) where that works, without holes. Returns how
/// many bytes were copied. Errors: those of the system calls.
Result<std::uint64_t> copy_data(int from, struct stat const& status, int to);

}  // namespace triton::storage
