#include "host/cri/images/usage.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <sys/stat.h>

namespace triton::cri {

namespace {

constexpr std::uint64_t block = 512;  // of st_blocks, whatever the file system has; stat(2)

}  // namespace

/// Counts what it can see. What is removed meanwhile is not there.
UsageMeter::Size UsageMeter::measure_directory(std::string const& path) {
    Size size;
    std::error_code failed;
    using Walk = std::filesystem::recursive_directory_iterator;
    Walk const end;
    for (Walk entry(path, std::filesystem::directory_options::skip_permission_denied, failed); !failed && entry != end;
         entry.increment(failed)) {
        struct stat status{};
        if (::lstat(entry->path().c_str(), &status) != 0) continue;
        std::uint64_t const names = std::max<std::uint64_t>(status.st_nlink, 1);
        bool const is_directory = S_ISDIR(status.st_mode);
        size.bytes += static_cast<std::uint64_t>(status.st_blocks) * block / (is_directory ? 1 : names);
        ++size.inodes;
    }
    return size;
}

Result<UsageMeter::Size> UsageMeter::size_of(storage::Pool& pool, std::string const& pool_path,
                                             storage::TreeName const& tree) {
    {
        std::scoped_lock const lock(mutex_);
        if (auto const found = trees_.find(tree.text()); found != trees_.end()) return found->second;
    }
    Size size{.bytes = 0, .inodes = measure_directory(pool_path + "/" + tree.text()).inodes};
    auto const usage = pool.usage(tree);
    if (!usage && usage.error().kind == ErrorKind::not_found) return Size{};
    if (!usage) return std::unexpected(usage.error());
    size.bytes = usage->used;
    std::scoped_lock const lock(mutex_);
    trees_[tree.text()] = size;
    return size;
}

Result<ImageUsage> UsageMeter::measure(storage::Pool& pool, std::string const& pool_path, std::string const& content) {
    ImageUsage usage{.mountpoint = pool_path};
    auto const add = [&usage](Size const& size) {
        usage.bytes += size.bytes;
        usage.inodes += size.inodes;
    };
    auto const trees = TRY(pool.list("layers"));
    for (storage::TreeName const& tree : trees)
        add(TRY(size_of(pool, pool_path, tree)));
    add(measure_directory(content));
    add(measure_directory(pool_path + "/@pool"));  // what is being built, or was left
    std::scoped_lock const lock(mutex_);
    std::erase_if(trees_, [&trees](auto const& known) {
        return std::ranges::none_of(trees,
                                    [&known](storage::TreeName const& tree) { return tree.text() == known.first; });
    });
    return usage;
}

}  // namespace triton::cri
