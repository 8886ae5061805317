#pragma once

#include <span>
#include <string>

#include <sys/types.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::files {

/// A file that is being written and gets its name only when it is whole. Until then it has none at all (O_TMPFILE), so
/// that SIGKILL leaves nothing behind either, except between link and rename over an older file; where the
/// file system or a missing /proc forbids that, it has a hidden unique name in the same directory, which the destructor
/// removes. remove_abandoned() finds what SIGKILL has left under such a name: a writer holds a lock (flock(2)), and
/// the kernel gives it back when he dies.
class PendingFile {
public:
    /// In `directory` (borrowed, must outlive it), to become `name` there. `shown`: its path for messages. `mode`: as
    /// finish() will set it; less the umask the file has it at once, for file systems where modes cannot be changed.
    /// Errors: those of openat(2), "create <shown>".
    static Result<PendingFile> create(int directory, std::string name, std::string shown, mode_t mode,
                                      bool may_be_unnamed);
    PendingFile(PendingFile&& other) noexcept;
    PendingFile& operator=(PendingFile&&) = delete;
    ~PendingFile();

    [[nodiscard]] int fd() const { return file_.get(); }
    [[nodiscard]] int directory() const { return directory_; }
    [[nodiscard]] bool has_name() const { return !temporary_.empty(); }

    /// Gives it mode and times, when its content is complete. Where times cannot be changed, they stay.
    /// Errors: those of fchmod(2), unless all bits of the mode are there already, and futimens(2).
    Result<> finish(mode_t mode, timespec const (&times)[2]);

    /// Makes all of it durable. Errors: those of fsync(2).
    Result<> make_durable();

    /// Puts it under its name in one step, over what is there. The directory is not yet durable. Errors: those of the
    /// system calls; EISDIR when a directory is there.
    Result<> put_in_place();

private:
    PendingFile(int directory, std::string name, std::string shown)
        : directory_(directory), name_(std::move(name)), shown_(std::move(shown)) {}
    Result<> create_named(mode_t mode);
    Result<> copy_to_named();
    Result<> rename_in_place();
    [[nodiscard]] bool is_held() const;
    Result<> link_as(std::string const& name, int& err) const;
    [[nodiscard]] std::string temporary_name() const;

    int directory_;
    std::string name_;
    std::string shown_;
    std::string temporary_;  // empty: unnamed, or in place
    UniqueFd file_;
};

/// Makes files of one file system durable by writing out all of it once (syncfs(2)): of thousands of small files each
/// costs a flush of the disk, together they cost one. Only where the file system is known to mean it: FUSE takes
/// syncfs(2) and makes nothing durable. It waits for what others have written to that file system too, so that it is
/// for many files.
/// Returns whether they are durable. If not, or when that is not known, make_durable() of each tells.
[[nodiscard]] bool make_durable_together(std::span<PendingFile* const> files);

/// Removes from a directory (open for reading, borrowed) what others have left in the middle of a copy: the regular
/// files that are named like an unfinished PendingFile and that no process holds. Files that cannot be opened or
/// removed stays, and so does all where the file system knows no locks: it only takes space.
void remove_abandoned(int directory);

}  // namespace triton::files
