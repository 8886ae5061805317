#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::storage {

/// Opens a directory inside another one for reading. It is never a symbolic link or a mount.
/// Errors: those of openat2(2); EXDEV for a mount.
Result<UniqueFd> open_below(int parent, std::string const& name);

/// The way from a directory down to one below it, of any depth: trees have names longer than PATH_MAX, and more levels
/// than a process may have descriptors. Ancestors that are far away are closed, and opened again through ".." on the
/// way back. That must lead to the same directory, because somebody may move directories meanwhile.
class DirectoryStack {
public:
    /// Begins at `root`. Errors: those of fstat(2).
    static Result<DirectoryStack> create(UniqueFd root);

    /// Goes down into a directory. Errors: those of open_below().
    Result<> enter(std::string const& name);
    /// Goes back to the parent; not allowed at the root. Errors: `busy` when the directory was moved.
    Result<> leave();

    /// The directory at the end of the way. Borrowed until the next call of enter() or leave().
    [[nodiscard]] int fd() const { return levels_.back().fd.get(); }
    /// How far below the root it is.
    [[nodiscard]] std::size_t depth() const { return levels_.size() - 1; }
    /// Its path below the root for messages, shortened in the middle when it is long: "usr/share/doc".
    [[nodiscard]] std::string shown() const;
    [[nodiscard]] std::string shown(std::string const& name) const;

private:
    struct Level {
        UniqueFd fd;  // none: closed at present
        dev_t device;
        ino_t inode;
        std::string name;
    };
    static constexpr std::size_t most_open = 64;

    DirectoryStack() = default;
    Result<> push(UniqueFd fd, std::string name);

    std::vector<Level> levels_;
};

}  // namespace triton::storage
