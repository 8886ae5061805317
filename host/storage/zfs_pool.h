#pragma once

#include <memory>
#include <string>

#include "host/storage/pool.h"
#include "lib/base/result.h"

namespace triton::storage {

/// A pool on ZFS: the tree "layers/a" is the dataset "layers/a" below that of the pool, mounted below the pool's path.
/// All work is done by zfs(8) as a child, with -H, and with -p where every version knows it; its messages for
/// people are only looked through for the reason of a failure.
///
/// The datasets above a tree, which form its group, have `canmount=off`: that tells them from trees. A property of ours
/// would take a second transaction for each clone. What is being received or destroyed is below `.building` or
/// `.trash`, locked by its number in the file `@pool/locks` of the pool's own dataset.
Result<std::unique_ptr<Pool>> open_zfs_pool(Settings const& settings);

/// Checks that the zpool of a dataset exists, and zfs(8) to use it. Errors: `unsupported`: no zfs(8); `unavailable`.
Result<> probe_zfs(std::string const& dataset);

}  // namespace triton::storage
