#include "host/storage/remove_tree.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/storage/btrfs.h"
#include "host/storage/directory_entries.h"
#include "host/storage/directory_stack.h"

namespace triton::storage {

namespace {

/// How often to go through a directory that is still not empty: somebody may be adding files, or the file system may
/// skip entries while others are removed.
constexpr int most_passes = 8;

/// Clears the flags that forbid removing a file or directory: chattr +i and +a. Devices and FIFOs do not have them, and
/// are not opened. Returns whether there were any.
bool make_removable(int parent, char const* name) {
    struct stat status;
    if (::fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return false;
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return false;
    UniqueFd const file{::openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
    int flags = 0;
    if (!file || ::ioctl(file.get(), FS_IOC_GETFLAGS, &flags) != 0) return false;
    int const less = flags & ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
    return less != flags && ::ioctl(file.get(), FS_IOC_SETFLAGS, &less) == 0;
}

/// Calls unlinkat(2). Returns 0 or an errno; 0 if it is gone already.
int unlink_at(int parent, char const* name, int flags) {
    if (::unlinkat(parent, name, flags) == 0 || errno == ENOENT) return 0;
    int const err = errno;
    if (err != EPERM) return err;
    bool const is_parent_ready = make_removable(parent, ".");
    bool const is_ready = make_removable(parent, name);
    if (!is_parent_ready && !is_ready) return err;
    return ::unlinkat(parent, name, flags) == 0 || errno == ENOENT ? 0 : errno;
}

class Removal {
public:
    explicit Removal(DirectoryStack stack) : stack_(std::move(stack)) {}

    Result<> run() {
        TRY(look());
        while (stack_.depth() > 0 || !pending_.back().names.empty()) {
            if (pending_.back().names.empty()) {
                TRY(leave());
            } else {
                TRY(enter());
            }
        }
        return {};
    }

private:
    struct Level {
        std::vector<std::string> names;  // of directories that still exist
        std::string own;                 // in its parent
        int passes = 0;
    };

    /// Removes the files of a directory and notes its directories.
    Result<> look() {
        if (pending_.size() <= stack_.depth()) pending_.push_back({{}, name_});
        Level& level = pending_.back();
        ++level.passes;
        btrfs::make_writable(stack_.fd());
        return reader_.read(stack_.fd(), [&](std::string const& name, unsigned char type) -> Result<> {
            if (type == DT_DIR) {
                level.names.push_back(name);
                return {};
            }
            int const err = unlink_at(stack_.fd(), name.c_str(), 0);
            if (err == 0) return {};
            if (err != EISDIR) return fail(err, "remove " + stack_.shown(name));
            level.names.push_back(name);  // DT_UNKNOWN
            return {};
        });
    }

    Result<> enter() {
        name_ = std::move(pending_.back().names.back());
        pending_.back().names.pop_back();
        // Most directories are not empty, but a subvolume can be removed at once with its content.
        if (unlink_at(stack_.fd(), name_.c_str(), AT_REMOVEDIR) == 0 || btrfs::destroy(stack_.fd(), name_)) return {};
        auto entered = stack_.enter(name_);
        if (entered) return look();
        int const err = entered.error().code;
        if (err == ENOENT) return {};
        if (err == EXDEV) return fail(ErrorKind::busy, "remove " + stack_.shown(name_), "something is mounted there");
        return entered;
    }

    /// Leaves a directory that should be empty now, and removes it. If it is not empty it is gone through again.
    Result<> leave() {
        std::string const own = pending_.back().own;
        TRY(stack_.leave());
        int const err = unlink_at(stack_.fd(), own.c_str(), AT_REMOVEDIR);
        if (err == 0) {
            pending_.pop_back();
            return {};
        }
        if (err != ENOTEMPTY || pending_.back().passes >= most_passes) return fail(err, "remove " + stack_.shown(own));
        TRY(stack_.enter(own));
        return look();
    }

    DirectoryStack stack_;
    DirectoryReader reader_;
    std::vector<Level> pending_;
    std::string name_;
};

/// Empties a directory. Something is left in it only if others add files meanwhile.
Result<> empty_directory(int parent, std::string const& name) {
    auto opened = open_below(parent, name);
    if (opened) return Removal(TRY(DirectoryStack::create(std::move(*opened)))).run();
    int const err = opened.error().code;
    if (err == ENOENT) return {};
    if (err == EXDEV) return fail(ErrorKind::busy, "remove " + name, "something is mounted there");
    return std::unexpected(std::move(opened).error());
}

}  // namespace

Result<> remove_tree(int parent, std::string const& name) {
    int err = unlink_at(parent, name.c_str(), 0);
    for (int pass = 0; err == EISDIR || (err == ENOTEMPTY && pass < most_passes); ++pass) {
        if (err == ENOTEMPTY && btrfs::destroy(parent, name)) return {};
        if (err == ENOTEMPTY) TRY(empty_directory(parent, name));
        err = unlink_at(parent, name.c_str(), AT_REMOVEDIR);
    }
    if (err == 0) return {};
    if (err == EBUSY) return fail(ErrorKind::busy, "remove " + name, "something is mounted there");
    return fail(err, "remove " + name);
}

}  // namespace triton::storage
