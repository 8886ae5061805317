#pragma once

#include <cstdint>
#include <optional>

#include <sys/types.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::storage {

/// The number of uids, and of gids, that a machine has: 0 to 65535.
inline constexpr std::uint32_t ids_of_machine = 65536;

/// The host's uid of a machine's root, when the machine's files belong to the host's uids on disk. systemd-nspawn gives
/// them to those where the file system has no idmapped mounts. Nothing when they belong to the machine's own.
/// `root`: the machine's root directory, borrowed. Errors: those of fstat(2).
Result<std::optional<uid_t>> shifted_by(int root);

/// Gives the files below a directory, or one file, to the uids of the host from `first` on: owners, groups, access
/// control lists and capabilities of its own uids, or of those of the machine that has its root now. For a file system
/// that cannot map owners. The root comes last, so that a call that was killed can be repeated. Nobody may use the
/// files meanwhile. Errors: as restore_own_ids().
Result<> give_ids(UniqueFd root, uid_t first);

/// Gives the files of a machine to its own uids again, if they are shifted: owners, groups, access control lists and
/// capabilities. What does not belong to one of the machine's uids stays as it is. Nobody may use the tree meanwhile.
/// Errors: those of the system calls, with the place.
Result<> restore_own_ids(UniqueFd root);

}  // namespace triton::storage
