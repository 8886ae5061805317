#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lib/base/result.h"

namespace triton::machine {

/// Where files are copied from, or to.
struct FilePlace {
    std::string root = {};  ///< root directory of a machine, where symbolic links lead nowhere else; empty: the host's
    std::string path = {};
    std::string machine = {};  ///< named before the path in messages, "MACHINE:/path"; empty: the host's
    uid_t owner = 0;           ///< of what is made there: root of the machine
    gid_t group = 0;
};

struct Transferred {
    std::uint64_t files = 0;  ///< links too
    std::uint64_t directories = 0;
    std::uint64_t bytes = 0;
    std::uint64_t skipped = 0;                    ///< devices, FIFOs, sockets, and what is mounted in a directory
    std::vector<std::string> skipped_names = {};  ///< some of these
};

/// Copies a file, or a directory with everything in it, as cp(1) does: into `to` if that is a directory, otherwise to
/// that name. A machine may change everything in its root meanwhile, and neither leads us out of it nor gives us
/// rights:
///
/// - symbolic links are followed in the two paths only, and within the root; in a directory they are copied;
/// - nothing is written into file systems of the kernel (/proc, /sys), which would do more than keep it;
/// - only regular files are opened, so that nothing waits for a FIFO, and no device does anything;
/// - what is made belongs to `owner`, and is never setuid or setgid.
///
/// Files appear under their names when they are whole. Errors: those of the file system, with the place; `invalid` for
/// a path without a name at its end; `refused` for a file system of the kernel; `unsupported` for more than a million
/// files, or 100 directories in each other.
Result<Transferred> transfer_files(FilePlace const& from, FilePlace const& to);

}  // namespace triton::machine
