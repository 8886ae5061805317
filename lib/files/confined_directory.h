#pragma once

#include <string>

#include <sys/stat.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::files {

/// A directory whose files may be read by clients over the network, and nothing else.
///
/// The kernel confines each path (openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS): "..", absolute paths and
/// symbolic links are followed as long as they stay inside, so that links inside the directory work, and one that
/// leads outside fails, even if it is swapped meanwhile. There is no comparison of strings to get wrong.
class ConfinedDirectory {
public:
    /// Errors: those of open(2), "open directory <path>".
    static Result<ConfinedDirectory> open(std::string const& path);
    /// An open directory, O_PATH too. Errors: ENOTDIR.
    static Result<ConfinedDirectory> adopt(UniqueFd directory);

    struct File {
        UniqueFd fd;
        struct stat status;
    };

    /// The attributes of a regular file, without opening it: it may be unreadable. Errors: as open_file().
    [[nodiscard]] Result<struct stat> look_at_file(std::string const& path) const;

    /// A regular file for reading. Errors, each with "open <path>": EXDEV when it leads outside; ELOOP; ENOENT;
    /// ENOTDIR; EACCES; EISDIR and EINVAL when it is not a regular file (which is then never opened: a FIFO would
    /// notice); ESTALE when the
    /// directory itself has been removed.
    [[nodiscard]] Result<File> open_file(std::string const& path) const;

    /// Whether something of whatever kind is there, links followed. Errors: as above; ENOENT and ENOTDIR are "no".
    [[nodiscard]] Result<bool> exists(std::string const& path) const;

    /// Borrowed.
    [[nodiscard]] int fd() const { return directory_.get(); }

private:
    explicit ConfinedDirectory(UniqueFd directory) : directory_(std::move(directory)) {}
    UniqueFd directory_;
};

}  // namespace triton::files
