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

/// What RoleProcess tells the program that it has started.
struct Started {
    Channel channel;
    std::uint32_t user = 0;  ///< its own user, in its user namespace
    std::uint32_t group = 0;
};

/// The first step of a role. Errors: `invalid`: "triton-verify is started by imgadm, not by hand".
Result<Started> take_over(Role role, std::span<char* const> arguments);

/// The rights of a role after it has confined itself. It has no others: no other files, no capabilities, no sight of
/// other users' processes. A system call that its work does not need makes the kernel kill it.
struct Confinement {
    Role role = Role::verify;
    /// Its root directory, writable: a detached mount (open_tree(2)). None: an empty directory that nobody can write
    /// to. It is used up.
    UniqueFd root = {};
    /// Files and directories of the host that it may still read below its root, if they exist. Of small files it gets a
    /// copy: one that is mounted from elsewhere (/etc/resolv.conf in a container) cannot be mounted again after it was
    /// replaced there.
    std::vector<std::string> readable = {};
    /// Files with this content in its root, by name; read-only.
    std::vector<std::pair<std::string, std::string>> files = {};
    /// One file of the host in its root, by name: a detached mount (open_tree(2)), which is used up.
    struct LentFile {
        std::string name;
        UniqueFd mount;
        bool is_writable = false;  ///< otherwise the mount must be read-only
    };
    /// Only of one that executes a program: triton-unpack's may open them whatever their modes are.
    std::vector<LentFile> lent = {};
    /// Whether it will execute a program of the system, which may read `files` and nothing else that matters: /usr and
    /// the libraries are mounted, and the filter allows what such a program needs to start.
    bool executes = false;
    std::uint64_t most_file_bytes = 0;       ///< RLIMIT_FSIZE; 0: files cannot grow
    std::uint64_t most_memory = 1ULL << 30;  ///< RLIMIT_AS
    std::uint32_t most_open_files = 64;      ///< RLIMIT_NOFILE
    std::uint32_t most_threads = 16;         ///< RLIMIT_NPROC; roles start no processes
};

/// Confines this process for ever; RoleProcess must have started it, and it must have one thread. It gets a mount
/// namespace with nothing but its root, its own user, no capabilities (triton-unpack keeps those over the owners of
/// files in its target, in its user namespace), no_new_privs, rlimits, no core dumps, Landlock, seccomp. If any step
/// fails this is an error: there is no weaker sandbox.
/// Errors: `unsupported` for a kernel without Landlock or seccomp; those of the system calls: "confine triton-verify:
/// mount an empty root".
Result<> confine(Confinement confinement, Started const& started);

}  // namespace triton::role
