#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/role/process.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::role {

/// What RoleProcess tells the program that it starts.
struct Started {
    Channel channel;
    std::uint32_t user = 0;  ///< its own, in its user namespace
    std::uint32_t group = 0;
};

/// The first step of a role. Errors: `invalid`: "triton-verify is started by imgadm, not by hand".
Result<Started> take_over(Role role, std::span<char* const> arguments);

/// The rights of a role once it has confined itself. All others are gone: all of the file system, all
/// capabilities, all other users' processes, and every system call that its work does not need (the kernel kills it
/// for one).
struct Confinement {
    Role role = Role::verify;
    /// Its root directory, writable: a detached mount (open_tree(2)). None: an empty directory, which
    /// nobody can write to. Used up.
    UniqueFd root = {};
    /// Files and directories of the host that it may still read below its root, where they are there.
    std::vector<std::string> readable = {};
    /// Files that its root has for it, by name. Read-only.
    std::vector<std::pair<std::string, std::string>> files = {};
    /// It is going to execute a program of the system, which may read `files` and nothing else of interest: /usr and
    /// the libraries are lent, and the filter allows what such a program needs to start.
    bool executes = false;
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
Result<> confine(Confinement confinement, Started const& started);

/// The directory as a detached mount of its own, for a role's root: nothing above it can be reached from it, and
/// nothing in it can be a device or a program. Borrowed. Errors: those of open_tree(2), "detach <shown>".
Result<UniqueFd> detached_mount(int directory, std::string_view shown);

}  // namespace triton::role
