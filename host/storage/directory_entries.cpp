#include "host/storage/directory_entries.h"

#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace triton::storage {

namespace {

// struct linux_dirent64 of getdents64(2), which is in no header: u64 inode, s64 offset, u16 size, u8 type, name.
constexpr std::size_t size_at = 16;
constexpr std::size_t type_at = 18;
constexpr std::size_t name_at = 19;

/// Names the directory as the kernel knows it, since only its descriptor is at hand.
std::unexpected<Error> failed(int err, int directory) {
    std::array<char, PATH_MAX> path{};
    std::string const link = "/proc/self/fd/" + std::to_string(directory);
    ssize_t const size = ::readlink(link.c_str(), path.data(), path.size());
    std::string const shown = size > 0 ? " " + std::string(path.data(), static_cast<std::size_t>(size)) : "";
    return fail(err, "read directory" + shown);
}

}  // namespace

UniqueFd open_directory(int parent, std::string const& name) {
    return UniqueFd{::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
}

Result<> DirectoryReader::rewind(int directory) {
    if (::lseek(directory, 0, SEEK_SET) < 0) return failed(errno, directory);
    return {};
}

Result<std::size_t> DirectoryReader::fill(int directory) {
    auto const size = ::syscall(SYS_getdents64, directory, buffer_.data(), buffer_.size());
    // A directory that was removed since it was opened has nothing in it. Source: POSIX, readdir(), which glibc makes
    // of this error.
    if (size < 0 && errno == ENOENT) return 0;
    if (size < 0) return failed(errno, directory);
    return static_cast<std::size_t>(size);
}

DirectoryReader::Record DirectoryReader::record_at(std::size_t at) const {
    std::uint16_t size = 0;
    std::memcpy(&size, &buffer_[at + size_at], sizeof size);
    return {size, static_cast<unsigned char>(buffer_[at + type_at]), std::string_view(&buffer_[at + name_at])};
}

}  // namespace triton::storage
