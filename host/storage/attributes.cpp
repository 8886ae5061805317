#include "host/storage/attributes.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace triton::storage {

namespace {

constexpr std::size_t first_size = 4 << 10;
constexpr int most_reads = 8;  // it may become longer between two calls

/// A path to a file that is not open, through the directory's descriptor. Before Linux 6.13 no call for extended
/// attributes takes a directory.
std::string path_of(Place const& place) {
    return "/proc/self/fd/" + std::to_string(place.directory) + '/' + place.name;
}

/// Calls a system call that fills a buffer, with a larger buffer while it returns ERANGE. Returns how much was filled.
template <class Call>
Result<std::size_t> fill(std::vector<char>& buffer, Call call) {
    if (buffer.empty()) buffer.resize(first_size);
    for (int attempt = 0; attempt < most_reads; ++attempt) {
        ssize_t const size = call(buffer.data(), buffer.size());
        if (size >= 0) return static_cast<std::size_t>(size);
        if (errno != ERANGE) break;
        ssize_t const needed = call(nullptr, 0);
        if (needed < 0) break;
        buffer.resize(static_cast<std::size_t>(needed) + first_size);
    }
    return fail(errno, "read extended attributes");
}

}  // namespace

Result<> ExtendedAttributes::read(Place const& place,
                                  std::function<Result<>(char const* name, std::string_view value)> const& take) {
    std::string const path = place.fd < 0 ? path_of(place) : std::string();
    auto const size = fill(names_, [&](char* buffer, std::size_t room) {
        return place.fd < 0 ? ::llistxattr(path.c_str(), buffer, room) : ::flistxattr(place.fd, buffer, room);
    });
    if (!size && size.error().code == ENOTSUP) return {};
    if (!size) return std::unexpected(size.error());
    for (std::size_t at = 0; at < *size; at += std::strlen(&names_[at]) + 1) {
        char const* const name = &names_[at];
        auto const length = fill(value_, [&](char* buffer, std::size_t room) {
            return place.fd < 0 ? ::lgetxattr(path.c_str(), name, buffer, room)
                                : ::fgetxattr(place.fd, name, buffer, room);
        });
        if (!length && length.error().code == ENODATA) continue;  // it has just been removed
        if (!length) return std::unexpected(length.error());
        TRY(take(name, {value_.data(), *length}));
    }
    return {};
}

Result<> set_extended_attribute(Place const& place, char const* name, std::string_view value) {
    int const failed = place.fd < 0 ? ::lsetxattr(path_of(place).c_str(), name, value.data(), value.size(), 0)
                                    : ::fsetxattr(place.fd, name, value.data(), value.size(), 0);
    if (failed != 0) return fail(errno, std::string("set ") + name);
    return {};
}

Result<> remove_extended_attribute(Place const& place, char const* name) {
    int const failed = place.fd < 0 ? ::lremovexattr(path_of(place).c_str(), name) : ::fremovexattr(place.fd, name);
    if (failed != 0 && errno != ENODATA) return fail(errno, std::string("remove ") + name);
    return {};
}

Result<> set_attributes(Place const& place, struct stat const& wanted, struct stat const& now) {
    bool const is_other_owner = wanted.st_uid != now.st_uid || wanted.st_gid != now.st_gid;
    if (is_other_owner) {
        int const failed =
            place.fd < 0 ? ::fchownat(place.directory, place.name, wanted.st_uid, wanted.st_gid, AT_SYMLINK_NOFOLLOW)
                         : ::fchown(place.fd, wanted.st_uid, wanted.st_gid);
        if (failed != 0) return fail(errno, "set the owner");
    }
    // chown(2) clears setuid and setgid, so the mode is set afterwards. A symbolic link has no mode.
    constexpr mode_t mode_bits = 07777;
    bool const is_other_mode = (wanted.st_mode & mode_bits) != (now.st_mode & mode_bits) || is_other_owner;
    if (is_other_mode && !S_ISLNK(wanted.st_mode)) {
        int const failed = place.fd < 0 ? ::fchmodat(place.directory, place.name, wanted.st_mode & mode_bits, 0)
                                        : ::fchmod(place.fd, wanted.st_mode & mode_bits);
        if (failed != 0) return fail(errno, "set the mode");
    }
    timespec const times[2] = {wanted.st_atim, wanted.st_mtim};
    int const failed = place.fd < 0 ? ::utimensat(place.directory, place.name, times, AT_SYMLINK_NOFOLLOW)
                                    : ::futimens(place.fd, times);
    if (failed != 0) return fail(errno, "set the times");
    return {};
}

}  // namespace triton::storage
