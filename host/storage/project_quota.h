#pragma once

#include <cstdint>
#include <optional>

#include "lib/base/result.h"

/// Limits of directories by project quotas, which XFS and ext4 have when mounted with "prjquota": xfs_quota(8).
namespace triton::storage::project_quota {

/// Limits the total size of the files in a directory (borrowed). Without a project id yet, they get one of their own,
/// as will all files made in it.
/// Errors: `unsupported`: the file system has no project quotas; those of the system calls.
Result<> set(int directory, std::optional<std::uint64_t> bytes);

/// None: no limit, or the file system has no project quotas.
Result<std::optional<std::uint64_t>> get(int directory);

/// Whether the file system has project quotas.
bool are_kept(int directory);

}  // namespace triton::storage::project_quota
