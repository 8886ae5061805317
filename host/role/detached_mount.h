#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::role {

// Calls for which Debian 12's libc has no wrapper, or whose kernel headers clash with libc's. They return what the
// system call returns.
int open_tree_call(int directory, char const* path, unsigned flags);
/// Sets attributes (MOUNT_ATTR_...) of a mount and of all mounts below it.
int restrict_mount(int mount, std::uint64_t attributes);

/// Makes a detached mount of a directory, for a role's root: it leads to nothing above, and nothing in it can be a
/// device or a program. Borrowed. Errors: those of open_tree(2), "detach <shown>".
Result<UniqueFd> detached_mount(int directory, std::string_view shown);

/// Opens a file again, through a read-only detached mount of it alone. A role that gets such a descriptor cannot change
/// the file's mode, owner, times or attributes by it, although root's id is in its user namespace: the kernel refuses
/// that for every file of a read-only mount (EROFS). The mount ends with the descriptor.
/// `file` is borrowed, and can be an O_PATH descriptor; `access` is O_RDONLY, or O_RDWR for a device.
/// Errors: those of open_tree(2) and open(2), "lend <shown>".
Result<UniqueFd> open_read_only_mount(int file, int access, std::string_view shown);

}  // namespace triton::role
