#pragma once

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

/// Goes through a tree from its root: calls for each directory `visitor.enter(stack, status)`, then for all in it that
/// is not a directory `visitor.entry(stack, name, status)`, then its directories in the same way, then
/// `visitor.leave(stack)`. What is mounted in it is a directory that looks empty: `visitor.mounted(stack, name)`.
/// Follows no symbolic link. Errors: those of the system calls and of the visitor.
template <class Visitor>
Result<> walk_tree(UniqueFd root, Visitor& visitor) {
    auto stack = TRY(DirectoryStack::create(std::move(root)));
    DirectoryReader reader;
    std::vector<std::vector<std::string>> pending;  // for each level the directories that are still to come

    auto const look = [&]() -> Result<> {
        struct stat status;
        if (::fstat(stack.fd(), &status) != 0) return fail(errno, "look at " + stack.shown());
        TRY(visitor.enter(stack, status));
        auto& directories = pending.emplace_back();
        return reader.read(stack.fd(), [&](std::string const& name, unsigned char type) -> Result<> {
            if (type != DT_DIR && ::fstatat(stack.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
                return fail(errno, "look at " + stack.shown(name));
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
        if (!entered && entered.error().code != EXDEV) return entered;
        TRY(entered ? look() : visitor.mounted(stack, name));
    }
}

}  // namespace triton::storage
