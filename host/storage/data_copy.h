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

/// The first of them at or after an offset; at the end of the file an empty one. A file system that knows no holes says
/// that all is data, and so do we of a file that has as many blocks as it needs.
Extent next_extent(int file, struct stat const& status, off_t at);

/// Copies the content of a file into one that is empty, by copy_file_range(2) where that works, holes left out.
/// Returns how many bytes were copied. Errors: those of the system calls.
Result<std::uint64_t> copy_data(int from, struct stat const& status, int to);

}  // namespace triton::storage
