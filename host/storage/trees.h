#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "host/storage/pool.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::storage {

/// How a DirectoryPool keeps a tree in a directory: this is where btrfs, reflink and directory differ. Directories are
/// borrowed and open for reading.
class Trees {
public:
    Trees() = default;
    Trees(Trees const&) = delete;
    Trees& operator=(Trees const&) = delete;
    virtual ~Trees() = default;

    [[nodiscard]] virtual Backend kind() const = 0;
    /// Whether copy() and copy_final() happen completely or not at all, and make the copy and everything before it
    /// durable. A copy then needs no temporary name.
    [[nodiscard]] virtual bool copies_at_once() const = 0;

    /// Makes an empty tree with mode 0755.
    virtual Result<> make(int parent, std::string const& name) = 0;
    enum class Left : std::uint8_t { names, content };  ///< what settle() still has to make durable
    /// Makes a writable tree with the content of another one.
    virtual Result<Left> copy(int tree, int parent, std::string const& name, std::optional<std::uint64_t> quota) = 0;
    /// The same for a tree that will not be written to.
    virtual Result<Left> copy_final(int tree, int parent, std::string const& name) = 0;
    /// Makes everything durable that the calls above have made below a directory.
    virtual Result<> settle(int directory, Left left) = 0;

    virtual Result<> set_quota(int tree, std::optional<std::uint64_t> bytes) = 0;
    virtual Result<std::optional<std::uint64_t>> quota(int tree) = 0;
    /// Whether the file system can limit a tree. btrfs can, and turns its quota groups on for that.
    virtual bool keeps_quotas(int tree) = 0;
    /// The content of a tree, and the part of it that is not shared.
    struct Size {
        std::uint64_t referenced = 0;
        std::uint64_t exclusive = 0;
    };
    virtual Result<Size> size(int tree) = 0;
    /// When a tree was made or copied, in microseconds of the wall clock; none: the file system does not keep that.
    virtual std::optional<std::int64_t> made_at(int tree) = 0;
};

std::unique_ptr<Trees> make_btrfs_trees();
/// `backend`: reflink or directory.
std::unique_ptr<Trees> make_copied_trees(Backend backend);

}  // namespace triton::storage
