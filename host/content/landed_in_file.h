#pragma once

#include <cstdint>

#include "host/content/intervals.h"

namespace triton::content {

/// What has been written of a file that ranges are written into one after the other, however its writer has ended: the
/// file system knows (lseek(2), SEEK_DATA). `noted`: what the journal says, which is used for the last page of each
/// piece, and instead of it where the file system cannot tell. It may be wrong by the content of single pages: the
/// digest tells.
Intervals landed_in_file(int fd, Intervals const& noted);

}  // namespace triton::content
