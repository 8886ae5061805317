#pragma once

#include "host/storage/trees.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::storage {

/// Adds up the sizes of a tree's files, each once however many names it has. `knows_shared`: blocks may be shared with
/// other files, and the file system tells which (FIEMAP); otherwise all are exclusive.
Result<Trees::Size> measure_tree(UniqueFd tree, bool knows_shared);

}  // namespace triton::storage
