#include "host/content/reserve.h"

#include <algorithm>
#include <cstdint>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"

namespace triton::content {

namespace {

constexpr int reserve_files = 8;
constexpr std::uint64_t least_of_each = 16 << 10;  // so that all of them are enough for a deletion
constexpr std::uint64_t most_of_each = 128 << 10;
/// The part of the free space that it takes.
constexpr std::uint64_t share = 128;
/// With less than this free it is given up.
constexpr std::uint64_t hardly_any = 2 << 20;
constexpr std::uint64_t hardly_any_inodes = 16;

std::string reserve_file(std::string const& content, int number) {
    return content + "/reserve." + std::to_string(number);
}

struct Free {
    std::uint64_t bytes = 0;
    bool has_inodes = false;  ///< some file systems make them when they are needed
};
Free free_on(std::string const& content) {
    struct statvfs disk{};
    if (::statvfs(content.c_str(), &disk) != 0) return {};
    return {disk.f_bavail * disk.f_frsize, disk.f_files == 0 || disk.f_favail >= hardly_any_inodes};
}

/// Makes a file as large as that, unless it is.
bool take(std::string const& path, std::uint64_t bytes) {
    UniqueFd const file{::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600)};
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
    if (static_cast<std::uint64_t>(status.st_size) >= bytes) return true;
    if (::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)) == 0) return true;
    if (status.st_size == 0) (void)::unlink(path.c_str());
    return false;
}

}  // namespace

bool give_reserve(std::string const& content) {
    Free const free = free_on(content);
    if (free.bytes >= hardly_any && free.has_inodes) return false;
    bool has_given = false;
    for (int number = 0; number < reserve_files; ++number)
        has_given = ::unlink(reserve_file(content, number).c_str()) == 0 || has_given;
    return has_given;
}

void take_reserve(std::string const& content) {
    std::uint64_t const part = free_on(content).bytes / share / reserve_files;
    std::uint64_t const bytes = std::clamp(part, least_of_each, most_of_each);
    for (int number = 0; number < reserve_files; ++number)
        if (!take(reserve_file(content, number), bytes)) return;
}

}  // namespace triton::content
