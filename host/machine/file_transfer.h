#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lib/base/result.h"

namespace triton::machine {

/// A place to copy files from or to.
struct FilePlace {
    std::string root = {};  ///< of a machine, and links do not lead out of it; empty: the host's
    std::string path = {};
    std::string machine = {};  ///< named before the path in messages, "MACHINE:/path"; empty: the host's
    uid_t owner = 0;           ///< of files made there: root of the machine
    gid_t group = 0;
};

struct Transferred {
    std::uint64_t files = 0;  ///< including links
    std::uint64_t directories = 0;
    std::uint64_t bytes = 0;
    std::uint64_t skipped = 0;                    ///< devices, FIFOs, sockets, and whatever is mounted in a directory
    std::vector<std::string> skipped_names = {};  ///< some of these
};

/// Copies a file, or a directory with everything in it, as cp(1) does: into `to` if that is a directory, otherwise to
/// that name. Meanwhile a machine may change everything in its root, but it can neither lead us out of that nor gain
/// rights:
///
/// - symbolic links are followed only in the two paths, and within the root; in a directory they are copied;
/// - nothing is written to file systems of the kernel (/proc, /sys), where writing does more than store;
/// - only regular files are opened, so that nothing waits for a FIFO, and no device acts;
/// - new files belong to `owner`, and are never setuid or setgid.
///
/// Files appear under their names when they are complete. Errors: those of the file system, with the place; `invalid`
/// for a path without a name at its end, and for a directory that would be copied into itself; `refused` for a file
/// system of the kernel; `unsupported` for more than a million files, or 100 nested directories.
Result<Transferred> transfer_files(FilePlace const& from, FilePlace const& to);

}  // namespace triton::machine
