#pragma once

#include <memory>

#include "host/storage/pool.h"
#include "host/storage/trees.h"
#include "lib/base/result.h"

namespace triton::storage {

/// A pool of any backend but ZFS. The tree "layers/a" is the directory `layers/a` in the pool's directory. It has
///
///     @tree                      its files: a directory or a subvolume
///     @snapshots/00000001@final  one for each snapshot, numbered by age
///     @properties                lines "key value"
///
/// so one rename gives a tree its name or removes it. In `@pool` are `format` (the backend), `lock`, and the workshops
/// `building` and `trash`. No name of a tree has an `@`.
///
/// Locks (flock(2), always in this order): that of the tree's directory, shared for reading the tree and exclusive for
/// moving it; that of its `@snapshots` for changes of snapshots, properties and quota; `@pool/lock` while a name is
/// given.
Result<std::unique_ptr<Pool>> open_directory_pool(Settings const& settings, std::optional<Backend> backend);

}  // namespace triton::storage
