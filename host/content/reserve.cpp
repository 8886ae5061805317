#include "host/content/reserve.h"

#include <cstdint>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"

namespace triton::content {

namespace {

constexpr int reserve_files = 8;
constexpr off_t bytes_of_each = 128 << 10;
constexpr std::uint64_t hardly_any = 2 << 20;
constexpr std::uint64_t plenty = 128 << 20;
constexpr std::uint64_t hardly_any_inodes = 16;

std::string reserve_file(std::string const& content, int number) {
    return content + "/reserve." + std::to_string(number);
}

/// Whether a disk has as many bytes and inodes free. Some file systems make inodes when they are needed.
bool has_free(std::string const& content, std::uint64_t bytes, std::uint64_t inodes) {
    struct statvfs disk{};
    if (::statvfs(content.c_str(), &disk) != 0) return false;
    return disk.f_bavail * disk.f_frsize >= bytes && (disk.f_files == 0 || disk.f_favail >= inodes);
}

bool take(std::string const& path) {
    if (::access(path.c_str(), F_OK) == 0) return true;
    UniqueFd const file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
    if (!file) return false;
    if (::fallocate(file.get(), 0, 0, bytes_of_each) == 0) return true;
    (void)::unlink(path.c_str());
    return false;
}

}  // namespace

void give_reserve(std::string const& content) {
    if (has_free(content, hardly_any, hardly_any_inodes)) return;
    for (int number = 0; number < reserve_files; ++number)
        (void)::unlink(reserve_file(content, number).c_str());
}

void take_reserve(std::string const& content) {
    if (!has_free(content, plenty, hardly_any_inodes * reserve_files)) return;
    for (int number = 0; number < reserve_files; ++number)
        if (!take(reserve_file(content, number))) return;
}

}  // namespace triton::content
