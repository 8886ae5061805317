#pragma once

#include <string>

#include "lib/base/result.h"

namespace triton::storage {

/// Removes the entry with that name in a directory (borrowed), with everything in it; a missing one is fine. Follows no
/// symbolic link. Also removes immutable files and btrfs subvolumes. Two may remove one tree at once.
/// Errors: `busy` when something is mounted in it; that, and the directories around it, are left alone.
Result<> remove_tree(int parent, std::string const& name);

}  // namespace triton::storage
