#include "lib/files/pending_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace triton::files {

namespace {

constexpr mode_t ours = 0600;         // while the file is being written
constexpr mode_t permissions = 0777;  // without setuid until it is complete
constexpr int most_names = 100;       // with 64 random bits a second one should never be needed

constexpr std::string_view hexadecimal_digits = "0123456789abcdef";
constexpr std::string_view temporary_end = ".tmp";
constexpr std::size_t random_digits = 16;

std::string hexadecimal(std::uint64_t number) {
    std::string text;
    for (int shift = 60; shift >= 0; shift -= 4)
        text += hexadecimal_digits[(number >> shift) & 15];
    return text;
}

/// Whether a name is of the form ".NAME.0123456789abcdef.tmp".
bool is_temporary_name(std::string_view name) {
    constexpr std::size_t end_size = 1 + random_digits + temporary_end.size();
    if (name.size() < 1 + 1 + end_size || name.front() != '.' || !name.ends_with(temporary_end)) return false;
    std::string_view const end = name.substr(name.size() - end_size);
    return end.front() == '.' && end.substr(1, random_digits).find_first_not_of(hexadecimal_digits) == end.npos;
}

/// Removes an abandoned file. Only a regular file is opened: opening a device may make it act.
void remove_if_abandoned(int directory, char const* name) {
    struct stat named;
    if (::fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(named.st_mode)) return;
    UniqueFd const file{::openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)};
    if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) (void)::unlinkat(directory, name, 0);
}

/// Whether all files are on one file system. A directory on the way to one of them may be a mount of its own.
bool are_on_one_system(std::span<PendingFile* const> files) {
    struct stat first;
    if (::fstat(files.front()->fd(), &first) != 0) return false;
    return std::ranges::all_of(files, [&first, known = files.front()->directory()](PendingFile const* file) mutable {
        struct stat status;
        if (file->directory() == known) return true;
        known = file->directory();
        return ::fstat(file->fd(), &status) == 0 && status.st_dev == first.st_dev;
    });
}

/// Whether a file without a name can be given one: by its descriptor (AT_EMPTY_PATH), which takes a privilege before
/// Linux 6.10, or through /proc.
bool can_name_unnamed() {
    static bool const can = ::access("/proc/self/fd", F_OK) == 0;
    return can;
}

}  // namespace

void remove_abandoned(int directory) {
    UniqueFd copy{::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    DIR* const stream = ::fdopendir(copy.get());
    if (!stream) return;
    (void)copy.release();  // the stream owns it now
    while (dirent const* const entry = ::readdir(stream)) {
        if (is_temporary_name(entry->d_name)) remove_if_abandoned(directory, entry->d_name);
    }
    ::closedir(stream);
}

/// Whether the file is still ours. Before it is locked, another process may take it for an abandoned one and remove it;
/// where there are no locks, nobody can.
bool PendingFile::is_held() const {
    if (::flock(fd(), LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
    struct stat status;
    return ::fstat(fd(), &status) != 0 || status.st_nlink > 0;
}

std::string PendingFile::temporary_name() const {
    std::uint64_t random = 0;
    if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) {
        // It is too early after boot, or a filter refuses. This value only needs to be likely: O_EXCL finds a name in
        // use.
        timespec now{};
        (void)::clock_gettime(CLOCK_MONOTONIC, &now);
        random = static_cast<std::uint64_t>(now.tv_nsec) << 32 | static_cast<std::uint32_t>(::getpid());
    }
    std::string const end = "." + hexadecimal(random) + std::string(temporary_end);
    return "." + name_.substr(0, NAME_MAX - 1 - end.size()) + end;
}

Result<PendingFile> PendingFile::create(int directory, std::string name, std::string shown, mode_t mode,
                                        bool may_be_unnamed) {
    PendingFile pending(directory, std::move(name), std::move(shown));
    if (may_be_unnamed && can_name_unnamed()) {
        pending.file_ = UniqueFd{::openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, (mode & permissions) | ours)};
    }
    if (!pending.file_) TRY(pending.create_named(mode));
    return pending;
}

PendingFile::PendingFile(PendingFile&& other) noexcept
    : directory_(other.directory_),
      name_(std::move(other.name_)),
      shown_(std::move(other.shown_)),
      temporary_(std::exchange(other.temporary_, {})),
      file_(std::move(other.file_)) {}

PendingFile::~PendingFile() {
    if (has_name()) (void)::unlinkat(directory_, temporary_.c_str(), 0);  // nobody to tell, and nothing else to do
}

Result<> PendingFile::create_named(mode_t mode) {
    for (int attempt = 0;; ++attempt) {
        std::string name = temporary_name();
        file_ = UniqueFd{::openat(directory_, name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW,
                                  (mode & permissions) | ours)};
        int const err = errno;
        if (file_ && is_held()) {
            temporary_ = std::move(name);
            return {};
        }
        if (file_) (void)::unlinkat(directory_, name.c_str(), 0);  // ENOENT: the other process has done it
        if (!file_ && err != EEXIST) return fail(err, "create " + shown_);
        if (attempt == most_names) return fail(ErrorKind::busy, "create " + shown_, "every temporary name is taken");
    }
}

Result<> PendingFile::link_as(std::string const& name, int& err) const {
    err = ::linkat(fd(), "", directory_, name.c_str(), AT_EMPTY_PATH) == 0 ? 0 : errno;
    if (err == ENOENT || err == EPERM) {  // not allowed: linkat(2) says so by the first, a filter by the second
        std::string const here = "/proc/self/fd/" + std::to_string(fd());
        err = ::linkat(AT_FDCWD, here.c_str(), directory_, name.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
    }
    if (err != 0) return fail(err, "create " + shown_);
    return {};
}

/// Copies a file that cannot be given a name into one that has a name.
Result<> PendingFile::copy_to_named() {
    UniqueFd const unnamed = std::move(file_);
    struct stat status;
    if (::fstat(unnamed.get(), &status) != 0) return fail(errno, "create " + shown_);
    TRY(create_named(status.st_mode & 07777));
    off_t at = 0;
    while (at < status.st_size) {
        ssize_t const sent = ::sendfile(fd(), unnamed.get(), &at, 1 << 30);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return fail(sent < 0 ? errno : EIO, "write " + shown_);
    }
    TRY(finish(status.st_mode & 07777, {status.st_atim, status.st_mtim}));
    return make_durable();
}

Result<> PendingFile::put_in_place() {
    if (!has_name()) {
        int err = 0;
        auto linked = link_as(name_, err);
        if (err == EPERM || err == ENOENT) {
            TRY(copy_to_named());
            return rename_in_place();
        }
        if (linked || err != EEXIST) return linked;
        // link(2) replaces nothing, so the file gets a temporary name, and rename(2) follows.
        (void)::flock(fd(), LOCK_EX | LOCK_NB);  // where there are no locks, nobody removes it either
        for (int attempt = 0; err == EEXIST && attempt < most_names; ++attempt) {
            std::string name = temporary_name();
            linked = link_as(name, err);
            if (linked) temporary_ = std::move(name);
        }
        if (!linked) return linked;
    }
    return rename_in_place();
}

Result<> PendingFile::rename_in_place() {
    if (::renameat(directory_, temporary_.c_str(), directory_, name_.c_str()) != 0)
        return fail(errno, "replace " + shown_);
    temporary_.clear();
    return {};
}

Result<> PendingFile::finish(mode_t mode, timespec const (&times)[2]) {
    struct stat status;
    if (::fstat(fd(), &status) != 0) return fail(errno, "look at " + shown_);
    // EPERM: the file system decides whose the file is (NFS, FAT), or a filter refuses.
    if ((status.st_mode & 07777) != mode && ::fchmod(fd(), mode) != 0 &&
        (errno != EPERM || (status.st_mode & mode) != mode))
        return fail(errno, "set the mode of " + shown_);
    if (::futimens(fd(), times) != 0 && errno != EPERM) return fail(errno, "set the times of " + shown_);
    return {};
}

Result<> PendingFile::make_durable() {
    if (::fsync(fd()) == 0) return {};
    int const err = errno;
    return fail(err, "write " + shown_);
}

bool make_durable_together(std::span<PendingFile* const> files) {
    constexpr std::array<unsigned long, 5> known{EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
                                                 TMPFS_MAGIC};
    if (files.empty()) return true;
    PendingFile const& first = *files.front();
    struct statfs system;
    if (::fstatfs(first.fd(), &system) != 0) return false;
    if (std::ranges::find(known, static_cast<unsigned long>(system.f_type)) == known.end()) return false;
    if (!are_on_one_system(files) || ::syncfs(first.fd()) != 0) return false;
    // Before Linux 5.8 syncfs did not report errors. This call reports those of one file, and has nothing left to wait
    // for.
    return std::ranges::all_of(files, [](PendingFile const* file) {
        return ::sync_file_range(file->fd(), 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE) == 0;
    });
}

}  // namespace triton::files
