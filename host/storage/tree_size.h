#pragma once

#include "host/storage/trees.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::storage {

/// Adds up what the files of a tree take, each once however many names it has. `knows_shared`: blocks may be shared
/// with other files, and the file system tells which (FIEMAP); else all of it is exclusive.
Result<Trees::Size> measure_tree(UniqueFd tree, bool knows_shared);

}  // namespace triton::storage
