#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/stat.h>
#include <sys/types.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton {

/// Which file a name stood for. Source: stat(2).
struct FileId {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    bool operator==(FileId const&) const = default;
};

/// A name in an open directory, for files in directories that others may write to.
///
/// A path is walked once, and everything is done from the directory that was reached. On the way a symbolic link is
/// followed if it belongs to root or to us, so that /var/run and /dev/stdout work: nobody else can make such a link. A
/// link of somebody else is an error, and so is one that comes into being meanwhile.
class Place {
public:
    enum class LastLink : std::uint8_t {
        keep,    ///< the name itself: for sockets, FIFOs and removal
        follow,  ///< the target, under the same rule: for log files
    };
    /// Errors: those of openat(2), `denied` for a link of somebody else; without `attempted`, which the caller knows.
    static Result<Place> find(std::string const& path, LastLink last);
    /// For a file that is to be renamed: where its name leads, but a link of somebody else stands for itself.
    static Result<Place> find_renamable(std::string const& path);

    /// As openat(2), close-on-exec and never through a link; -1 and errno.
    [[nodiscard]] UniqueFd open(int flags, mode_t mode = 0) const;
    /// The file under the name, even a link; nothing and errno if there is none.
    [[nodiscard]] std::optional<struct stat> status() const;
    [[nodiscard]] bool is(FileId id) const;

    /// Gives owner, group and mode to the file if it is still that one, by descriptor, and only what differs.
    /// Errors: those of chown(2) and chmod(2); `refused` when another file is there; without `attempted`.
    [[nodiscard]] Result<> set_access(FileId id, std::optional<uid_t> user, std::optional<gid_t> group,
                                      std::optional<mode_t> mode) const;

    /// Whether only root and we can rename or remove our files there.
    [[nodiscard]] bool is_guarded() const;
    /// Makes a directory of that mode there, whatever the umask is. Returns whether it could; errno.
    bool make_directory(mode_t mode) const;
    /// Makes a FIFO of mode 0600 there. Returns whether it could; errno.
    [[nodiscard]] bool make_fifo() const;
    /// Renames in its directory. Returns whether it could; errno.
    [[nodiscard]] bool rename(std::string const& from, std::string const& to) const;
    /// Whether it could be removed; errno.
    [[nodiscard]] bool remove() const;
    /// Removes the name if it still names that file.
    void remove_if(FileId id) const;

    [[nodiscard]] std::string const& name() const { return name_; }
    /// Whether it is a link of the kernel's own, as /proc/self/fd/1: to a file, but nothing to be renamed.
    [[nodiscard]] bool is_of_kernel() const { return is_on_proc_; }

private:
    Place(UniqueFd directory, std::string name, bool is_on_proc)
        : directory_(std::move(directory)), name_(std::move(name)), is_on_proc_(is_on_proc) {}

    UniqueFd directory_;
    std::string name_;
    bool is_on_proc_;  // a link of the kernel's own, as /proc/self/fd/1
};

/// The error with what was attempted, which find() and set_access() leave to the caller.
std::unexpected<Error> about(std::string attempted, Error why);

inline FileId id_of(struct stat const& status) { return {status.st_dev, status.st_ino}; }

}  // namespace triton
