#pragma once

#include <cstdint>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::storage {

enum class CopyWay : std::uint8_t {
    reflink,  ///< the copy of a file shares its blocks (FICLONE) where that is possible for the file
    copy,     ///< the bytes are copied, without holes
};

struct CopyFacts {
    std::uint64_t entries = 0;
    std::uint64_t copied_bytes = 0;  ///< those not shared; they may not be on disk yet

    bool operator==(CopyFacts const&) const = default;
};

/// Copies everything in a directory into another, empty one on the same file system, then copies the directory's own
/// attributes. Copies files, holes, hard links among them, directories of any depth, symbolic links, devices, FIFOs,
/// sockets; owners, modes with setuid, times, extended attributes with ACLs. A mount in it, or a subvolume, becomes an
/// empty directory. Follows no symbolic link. Makes nothing durable. Others may write to the first directory meanwhile:
/// each file is then copied as it was at some moment. Errors: those of the system calls, with the path; `busy` when
/// directories are moved meanwhile.
Result<CopyFacts> copy_tree(UniqueFd from, UniqueFd to, CopyWay way);

}  // namespace triton::storage
