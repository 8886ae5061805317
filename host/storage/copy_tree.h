#pragma once

#include <cstdint>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::storage {

enum class CopyWay : std::uint8_t {
    reflink,  ///< the copy of a file shares its blocks (FICLONE) where the file system can do that for that file
    copy,     ///< the bytes are copied, holes left out
};

struct CopyFacts {
    std::uint64_t entries = 0;
    std::uint64_t copied_bytes = 0;  ///< of those that were not shared: they are not on the disk yet

    bool operator==(CopyFacts const&) const = default;
};

/// Copies all of one directory into another one that is empty, on the same file system; then gives that directory the
/// first one's attributes. Takes files, holes, hard links among them, directories of any depth, symbolic links,
/// devices, FIFOs, sockets; owners, modes with setuid, times, extended attributes with ACLs. What is mounted somewhere
/// in it, and a subvolume, becomes an empty directory. Follows no symbolic link. Nothing is made durable. Somebody may
/// write to the first directory meanwhile: each file is then as it was at some moment. Errors: those of the system
/// calls, with the path; `busy` when directories are moved meanwhile.
Result<CopyFacts> copy_tree(UniqueFd from, UniqueFd to, CopyWay way);

}  // namespace triton::storage
