#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::cri::monitor {

/// The ids of a user namespace: as many as `count` from 0 on are those of the host from `host` on.
struct IdRange {
    std::uint32_t host = 0;
    std::uint32_t count = 0;

    bool operator==(IdRange const&) const = default;
};
struct UserMapping {
    IdRange users = {};
    IdRange groups = {};

    /// Whether there is a user namespace.
    [[nodiscard]] bool is_set() const { return users.count != 0; }
    bool operator==(UserMapping const&) const = default;
};

/// "USER:COUNT:GROUP:COUNT", or empty. Errors: `invalid`.
std::string mapping_text(UserMapping const& mapping);
Result<UserMapping> parse_mapping(std::string const& text);

/// Gives a process, which has just begun a user namespace, its ids. Errors: those of the files in /proc.
Result<> write_mapping(int pid, UserMapping const& mapping);

/// Mounts a directory or a file, with what is mounted below it, on `target`: owners as the user namespace sees them, if
/// one is given; else (-1) as they are. Source: mount_setattr(2), "ID-mapped mounts". Errors: those of open_tree(2) and
/// move_mount(2); `unsupported`: its file system cannot do that, with the name of that file system.
Result<> mount_mapped(std::string const& source, std::string const& target, int user_namespace);

}  // namespace triton::cri::monitor
