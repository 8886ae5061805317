#pragma once

#include <cstdint>

#include "host/content/intervals.h"

namespace triton::content {

/// Which parts of a file have been written, when ranges are written into it one after the other, however its writer has
/// ended. The file system knows (lseek(2), SEEK_DATA). `noted`: what the journal says. It is used for the last page of
/// each piece, and for everything where the file system cannot tell. Single pages may be wrong: the digest will tell.
Intervals landed_in_file(int fd, Intervals const& noted);

}  // namespace triton::content
