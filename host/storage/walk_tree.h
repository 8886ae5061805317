#pragma once

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "host/storage/directory_entries.h"
#include "host/storage/directory_stack.h"
#include "lib/base/result.h"

namespace triton::storage {

/// Whether a name was that of a directory and is not any more: it is gone, or something else has taken it.
inline bool has_directory_gone(Error const& error) {
    return error.code == ENOENT || error.code == ENOTDIR || error.code == ELOOP;
}

/// Goes through a tree from its root. For each directory it calls `visitor.enter(stack, status)`, then
/// `visitor.entry(stack, name, status)` for everything in it but directories, then goes through its directories in the
/// same way, then calls `visitor.leave(stack)`. For a mount in the tree, which counts as an empty directory, it calls
/// `visitor.mounted(stack, name)`. Follows no symbolic link. What goes while it is looked for, as in a tree that is in
/// use, is left out. Errors: those of the system calls and of the visitor.
template <class Visitor>
Result<> walk_tree(UniqueFd root, Visitor& visitor) {
    auto stack = TRY(DirectoryStack::create(std::move(root)));
    DirectoryReader reader;
    std::vector<std::vector<std::string>> pending;  // for each level the directories that still follow

    auto const look = [&]() -> Result<> {
        struct stat status;
        if (::fstat(stack.fd(), &status) != 0) return fail(errno, "look at " + stack.shown());
        TRY(visitor.enter(stack, status));
        auto& directories = pending.emplace_back();
        return reader.read(stack.fd(), [&](std::string const& name, unsigned char type) -> Result<> {
            if (type != DT_DIR && ::fstatat(stack.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
                return errno == ENOENT ? Result<>() : fail(errno, "look at " + stack.shown(name));
            if (type != DT_DIR && !S_ISDIR(status.st_mode)) return visitor.entry(stack, name, status);
            directories.push_back(name);
            return {};
        });
    };

    TRY(look());
    while (true) {
        if (pending.back().empty()) {
            TRY(visitor.leave(stack));
            pending.pop_back();
            if (pending.empty()) return {};
            TRY(stack.leave());
            continue;
        }
        std::string const name = std::move(pending.back().back());
        pending.back().pop_back();
        auto const entered = stack.enter(name);
        if (!entered && has_directory_gone(entered.error())) continue;
        if (!entered && entered.error().code != EXDEV) return entered;
        TRY(entered ? look() : visitor.mounted(stack, name));
    }
}

}  // namespace triton::storage
