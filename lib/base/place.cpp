#include "lib/base/place.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace triton {

namespace {

constexpr int most_place_links = 40;    // as in the kernel: path_resolution(7)
constexpr long fchmodat2_number = 452;  // Linux 6.6

Result<UniqueFd> open_directory(int at, char const* name) {
    UniqueFd fd{::openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC)};
    int const err = errno;
    if (!fd) return fail(err, {});
    return fd;
}

/// A walk along a path: where it is, and what is left of the path.
struct Walk {
    UniqueFd directory;
    std::string rest;
    int links = 0;

    Result<> start(std::string path) {
        rest = std::move(path);
        if (rest.starts_with('/')) {
            directory = TRY(open_directory(AT_FDCWD, "/"));
        } else if (!directory) {
            directory = TRY(open_directory(AT_FDCWD, "."));
        }
        return {};
    }

    std::string take_name() {
        rest.erase(0, std::min(rest.find_first_not_of('/'), rest.size()));
        std::string name = rest.substr(0, rest.find('/'));
        rest.erase(0, name.size());
        return name.empty() ? "." : name;
    }

    [[nodiscard]] bool is_at_last() const { return rest.find_first_not_of('/') == std::string::npos; }

    /// Goes on with the text of a link. The link itself is open (O_PATH | O_NOFOLLOW), so the one that was judged is
    /// followed.
    Result<> follow(UniqueFd const& link, struct stat const& status, std::string const& name) {
        if (status.st_uid != 0 && status.st_uid != ::geteuid())
            return fail(ErrorKind::denied, {},
                        name + " on the way is a symbolic link of user " + std::to_string(status.st_uid));
        if (++links > most_place_links) return fail(ELOOP, {});
        std::array<char, PATH_MAX> target;
        ssize_t const size = ::readlinkat(link.get(), "", target.data(), target.size());
        int const err = errno;
        if (size < 0) return fail(err, {});
        if (size == static_cast<ssize_t>(target.size())) return fail(ENAMETOOLONG, {});
        return start(std::string(target.data(), static_cast<std::size_t>(size)) + rest);
    }
};

/// Whether a link is the kernel's, whose text cannot be walked. Nobody else can make links on /proc.
bool is_on_proc(UniqueFd const& fd) {
    struct statfs status;
    return ::fstatfs(fd.get(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

/// Changes the mode of a file by its descriptor, which may be O_PATH. Returns whether that worked; errno.
bool change_mode(int fd, mode_t mode) {
    if (::syscall(fchmodat2_number, fd, "", mode, AT_EMPTY_PATH) == 0) return true;
    // Older kernels do not have this call, and filters may answer anything to a call that they do not know.
    return ::chmod(("/proc/self/fd/" + std::to_string(fd)).c_str(), mode) == 0;
}

}  // namespace

std::unexpected<Error> about(std::string attempted, Error why) {
    why.attempted = std::move(attempted);
    return std::unexpected(std::move(why));
}

Result<Place> Place::find(std::string const& path, LastLink last) {
    if (path.empty()) return fail(ENOENT, {});
    Walk walk;
    TRY(walk.start(path));
    // A walk takes at most PATH_MAX / 2 names and `most_place_links` links, each with a text of that length.
    for (;;) {
        std::string const name = walk.take_name();
        bool const is_last = walk.is_at_last();
        if (is_last && last == LastLink::keep) return Place{std::move(walk.directory), name, false};
        UniqueFd next{::openat(walk.directory.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)};
        int const err = errno;
        if (!next && is_last && err == ENOENT) return Place{std::move(walk.directory), name, false};
        struct stat status;
        if (!next || ::fstat(next.get(), &status) != 0) return fail(err, {});
        bool const is_link = S_ISLNK(status.st_mode);
        if (is_link && is_on_proc(next)) {
            if (is_last) return Place{std::move(walk.directory), name, true};
            walk.directory = TRY(open_directory(walk.directory.get(), name.c_str()));
        } else if (is_link) {
            TRY(walk.follow(next, status, name));
        } else if (is_last) {
            return Place{std::move(walk.directory), name, false};
        } else if (!S_ISDIR(status.st_mode)) {
            return fail(ENOTDIR, {});
        } else {
            walk.directory = std::move(next);
        }
    }
}

Result<Place> Place::find_renamable(std::string const& path) {
    auto place = find(path, LastLink::follow);
    return place || place.error().kind != ErrorKind::denied ? std::move(place) : find(path, LastLink::keep);
}

UniqueFd Place::open(int flags, mode_t mode) const {
    int const no_link = is_on_proc_ ? 0 : O_NOFOLLOW;
    return UniqueFd{::openat(directory_.get(), name_.c_str(), flags | no_link | O_CLOEXEC, mode)};
}

std::optional<struct stat> Place::status() const {
    struct stat status;
    if (::fstatat(directory_.get(), name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
    return status;
}

bool Place::is(FileId id) const {
    auto const now = status();
    return now && id_of(*now) == id;
}

Result<> Place::set_access(FileId id, std::optional<uid_t> user, std::optional<gid_t> group,
                           std::optional<mode_t> mode) const {
    UniqueFd const fd = open(O_PATH);
    struct stat status;
    bool const is_there = fd && ::fstat(fd.get(), &status) == 0;
    // A second name may be in another directory, whose owner decides who may have the file.
    if (!is_there || id_of(status) != id || status.st_nlink != 1)
        return fail(ErrorKind::refused, {}, "another file has replaced it");
    uid_t const new_user = user.value_or(status.st_uid);
    gid_t const new_group = group.value_or(status.st_gid);
    bool const has_changed = new_user != status.st_uid || new_group != status.st_gid;
    if (has_changed && ::fchownat(fd.get(), "", new_user, new_group, AT_EMPTY_PATH) != 0) return fail(errno, {});
    if (mode && (has_changed || (status.st_mode & 07777) != *mode) && !change_mode(fd.get(), *mode))
        return fail(errno, {});
    return {};
}

bool Place::is_guarded() const {
    struct stat status;
    if (::fstat(directory_.get(), &status) != 0) return false;
    bool const is_shared = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0;
    return !is_shared && (status.st_uid == 0 || status.st_uid == ::geteuid());
}

bool Place::make_directory(mode_t mode) const {
    mode_t const umask = ::umask(0);
    bool const is_made = ::mkdirat(directory_.get(), name_.c_str(), mode) == 0;
    int const err = errno;
    ::umask(umask);
    errno = err;
    return is_made;
}

bool Place::make_fifo() const { return ::mkfifoat(directory_.get(), name_.c_str(), 0600) == 0; }

bool Place::rename(std::string const& from, std::string const& to) const {
    return ::renameat(directory_.get(), from.c_str(), directory_.get(), to.c_str()) == 0;
}

bool Place::remove() const { return ::unlinkat(directory_.get(), name_.c_str(), 0) == 0; }

void Place::remove_if(FileId id) const {
    if (is(id)) (void)remove();  // a name that stays is replaced next time
}

}  // namespace triton
