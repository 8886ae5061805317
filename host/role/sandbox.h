#pragma once

#include <cstdint>

#include "host/role/process.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::role {

/// What a role may still do once it has confined itself. Whatever is not here is gone: all of the file system, all
/// capabilities, all other users' processes, and every system call that its work does not need (the kernel kills it
/// for one).
struct Confinement {
    Role role = Role::verify;
    /// What it sees as its root directory, writable: a detached mount (open_tree(2)). None: an empty directory, which
    /// nobody can write to. Used up.
    UniqueFd root = {};
    std::uint64_t most_file_bytes = 0;       ///< RLIMIT_FSIZE; 0: files cannot grow
    std::uint64_t most_memory = 1ULL << 30;  ///< RLIMIT_AS
    std::uint32_t most_open_files = 64;      ///< RLIMIT_NOFILE
};

/// Confines this process, which RoleProcess has started and which has one thread, for ever: a mount namespace with
/// nothing but its root, its own user, no capability (triton-unpack keeps those over the owners of files in its
/// target, of its user namespace), no_new_privs, rlimits, no core dumps, Landlock, seccomp. Every step that fails ends
/// it with an error: there is no weaker sandbox.
/// Errors: `unsupported` for a kernel without Landlock or seccomp; those of the system calls: "confine triton-verify:
/// mount an empty root".
Result<> confine(Confinement confinement);

/// What a role does first: takes the descriptor of its channel. Errors: `invalid`: "triton-verify is started by imgadm,
/// not by hand", when there is none.
Result<Channel> inherited_channel(Role role);

}  // namespace triton::role
