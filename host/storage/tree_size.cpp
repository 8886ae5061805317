#include "host/storage/tree_size.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <unordered_set>

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "host/storage/walk_tree.h"

namespace triton::storage {

namespace {

constexpr std::uint64_t stat_block = 512;  // of st_blocks
constexpr unsigned extents_at_once = 128;

/// The bytes of a file that no other file shares, if the file system tells; otherwise all bytes.
std::uint64_t exclusive_bytes(int file, std::uint64_t all) {
    alignas(fiemap) std::array<char, sizeof(fiemap) + extents_at_once * sizeof(fiemap_extent)> room{};
    auto* const map = reinterpret_cast<fiemap*>(room.data());
    std::uint64_t shared = 0;
    // Bounded by the length of the file: each round begins where the last one has ended.
    for (std::uint64_t at = 0;;) {
        room.fill(0);
        map->fm_start = at;
        map->fm_length = FIEMAP_MAX_OFFSET - at;
        map->fm_extent_count = extents_at_once;
        if (::ioctl(file, FS_IOC_FIEMAP, map) != 0 || map->fm_mapped_extents == 0) break;
        fiemap_extent last{};
        for (unsigned i = 0; i < map->fm_mapped_extents; ++i) {
            std::memcpy(&last, &map->fm_extents[i], sizeof last);
            if ((last.fe_flags & FIEMAP_EXTENT_SHARED) != 0) shared += last.fe_length;
        }
        at = last.fe_logical + last.fe_length;
        if ((last.fe_flags & FIEMAP_EXTENT_LAST) != 0 || last.fe_length == 0) break;
    }
    return shared < all ? all - shared : 0;
}

class Measure {
public:
    explicit Measure(bool knows_shared) : knows_shared_(knows_shared) {}

    Result<> enter(DirectoryStack const& /*stack*/, struct stat const& status) {
        add(static_cast<std::uint64_t>(status.st_blocks) * stat_block, true);
        return {};
    }
    Result<> entry(DirectoryStack const& stack, std::string const& name, struct stat const& status) {
        if (status.st_nlink > 1 && !seen_.insert(status.st_ino).second) return {};
        std::uint64_t const all = static_cast<std::uint64_t>(status.st_blocks) * stat_block;
        if (!knows_shared_ || !S_ISREG(status.st_mode) || all == 0) {
            add(all, true);
            return {};
        }
        UniqueFd const file{
            ::openat(stack.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
        add(all, false);
        size_.exclusive += file ? exclusive_bytes(file.get(), all) : all;
        return {};
    }
    Result<> mounted(DirectoryStack const& /*stack*/, std::string const& /*name*/) { return {}; }
    Result<> leave(DirectoryStack const& /*stack*/) { return {}; }

    [[nodiscard]] Trees::Size size() const { return size_; }

private:
    void add(std::uint64_t bytes, bool is_exclusive) {
        size_.referenced += bytes;
        if (is_exclusive) size_.exclusive += bytes;
    }

    bool knows_shared_;
    std::unordered_set<std::uint64_t> seen_;  // inodes with several names
    Trees::Size size_;
};

}  // namespace

Result<Trees::Size> measure_tree(UniqueFd tree, bool knows_shared) {
    Measure measure(knows_shared);
    TRY(walk_tree(std::move(tree), measure));
    return measure.size();
}

}  // namespace triton::storage
