#include "lib/log/shared_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "lib/base/place.h"

namespace triton::log {

namespace {

constexpr int kept_files = 2;  // besides the one that is being written, as in fdb-kubernetes-monitor

}  // namespace

Result<> SharedFile::open() {
    auto const place = Place::find(path_, Place::LastLink::follow);
    if (!place) return about("open the log file " + path_, place.error());
    // O_NONBLOCK: a FIFO without a reader is an error, not a wait. It does nothing to a regular file.
    UniqueFd fd = place->open(O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY | O_NONBLOCK, 0644);
    int const err = errno;
    if (!fd) return fail(err, "open the log file " + path_);
    output_.replace(std::move(fd));
    return {};
}

Result<bool> SharedFile::reopen(bool in_any_case) {
    struct stat opened;
    struct stat named;
    bool const is_same = output_.fd() >= 0 && ::fstat(output_.fd(), &opened) == 0 &&
                         ::stat(path_.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
                         opened.st_ino == named.st_ino;
    if (is_same && !in_any_case) return false;
    TRY(open());
    return true;
}

/// Looks after a file that may have been renamed or removed by log rotation, or that may be full. That is worth two
/// system calls, since lines are rare.
Result<> SharedFile::tend() {
    (void)reopen(false);  // until that succeeds, lines wait
    struct stat opened;
    bool const is_file = output_.fd() >= 0 && ::fstat(output_.fd(), &opened) == 0 && S_ISREG(opened.st_mode);
    if (size_limit_ == 0 || !is_file || opened.st_size == 0) return {};
    auto const size = static_cast<std::uint64_t>(opened.st_size);
    if (size + output_.pending() <= size_limit_) return {};
    Result<> rotated = rotate();
    if (!rotated) size_limit_ = size + max_size_;  // so that not every line tries it again
    return rotated;
}

/// Rotates the file. Two containers of a pod may log to the same one: the holder of its lock renames it, and the other
/// finds the new file next time. The lock ends with the descriptor, which is closed when the new file replaces it.
/// Errors: those of rename(2) and open(2).
Result<> SharedFile::rotate() {
    int const fd = output_.fd();
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return {};
    // Another process may have had the lock, and renamed the file, since we looked.
    if (TRY(reopen(false))) return {};
    auto const place = Place::find_renamable(path_);
    if (!place || place->is_of_kernel()) {
        (void)::flock(fd, LOCK_UN);
        if (!place) return about("rename the log file " + path_, place.error());
        size_limit_ = 0;  // as of /dev/stderr: its name is nobody's to move
        return {};
    }
    for (int number = kept_files; number > 0; --number) {
        std::string const suffix = number > 1 ? "." + std::to_string(number - 1) : "";
        if (place->rename(place->name() + suffix, place->name() + "." + std::to_string(number))) continue;
        int const err = errno;
        if (err == ENOENT) continue;
        (void)::flock(fd, LOCK_UN);
        return fail(err, "rename the log file " + path_ + suffix);
    }
    TRY(open());
    size_limit_ = max_size_;
    return {};
}

}  // namespace triton::log
