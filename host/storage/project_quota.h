#pragma once

#include <cstdint>
#include <optional>

#include "lib/base/result.h"

/// Limits of directories by project quotas, as XFS and ext4 have them when they are mounted with "prjquota":
/// xfs_quota(8).
namespace triton::storage::project_quota {

/// Limits what the files in a directory (borrowed) take together. Its files get a project id of their own when it has
/// none yet, and so will all that are made in it.
/// Errors: `unsupported`: the file system keeps none; those of the system calls.
Result<> set(int directory, std::optional<std::uint64_t> bytes);

/// None: no limit, or the file system keeps none.
Result<std::optional<std::uint64_t>> get(int directory);

}  // namespace triton::storage::project_quota
