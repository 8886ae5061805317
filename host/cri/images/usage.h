#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "host/storage/pool.h"
#include "lib/base/result.h"

namespace triton::cri {

/// What images take on disk.
struct ImageUsage {
    std::string mountpoint;  ///< a directory on the file system of the trees
    std::uint64_t bytes = 0;
    std::uint64_t inodes = 0;

    bool operator==(ImageUsage const&) const = default;
};

/// Measures images. The tree of a layer never changes, so it is measured once. May be called from several threads.
class UsageMeter {
public:
    /// Everything that images have: trees, blobs, and what killed pulls have left. `content`: the directory of the
    /// content store.
    Result<ImageUsage> measure(storage::Pool& pool, std::string const& pool_path, std::string const& content);

private:
    struct Size {
        std::uint64_t bytes = 0;
        std::uint64_t inodes = 0;
    };
    static Size measure_directory(std::string const& path);
    Result<Size> size_of(storage::Pool& pool, std::string const& pool_path, storage::TreeName const& tree);

    std::mutex mutex_;
    std::map<std::string, Size> trees_;
};

}  // namespace triton::cri
