#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/storage/btrfs.h"
#include "host/storage/tree_size.h"
#include "host/storage/trees.h"

namespace triton::storage {

namespace {

/// Each tree is a subvolume, and each snapshot a read-only one.
class BtrfsTrees final : public Trees {
public:
    [[nodiscard]] Backend kind() const override { return Backend::btrfs; }
    [[nodiscard]] bool copies_at_once() const override { return true; }

    Result<> make(int parent, std::string const& name) override {
        TRY(btrfs::create(parent, name));
        if (::fchmodat(parent, name.c_str(), 0755, 0) != 0) return fail(errno, "set the mode of " + name);
        return {};
    }
    Result<Left> copy(int tree, int parent, std::string const& name, std::optional<std::uint64_t> quota) override {
        TRY(btrfs::snapshot(tree, parent, name, false));
        if (!quota) return Left::names;
        UniqueFd const made{::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
        if (!made) return fail(errno, "open subvolume " + name);
        TRY(btrfs::limit(made.get(), parent, quota));
        return Left::names;
    }
    Result<Left> copy_final(int tree, int parent, std::string const& name) override {
        TRY(btrfs::snapshot(tree, parent, name, true));
        return Left::names;
    }
    Result<> settle(int directory, Left left) override {
        if ((left == Left::names ? ::fsync(directory) : ::syncfs(directory)) != 0)
            return fail(errno, "make the tree durable");
        return {};
    }

    Result<> set_quota(int tree, std::optional<std::uint64_t> bytes) override {
        UniqueFd const outside{::openat(tree, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        if (!outside) return fail(errno, "open the directory of the subvolume");
        return btrfs::limit(tree, outside.get(), bytes);
    }
    Result<std::optional<std::uint64_t>> quota(int tree) override {
        auto const group = TRY(btrfs::group(tree));
        return group ? group->limit : std::nullopt;
    }
    bool keeps_quotas(int /*tree*/) override { return true; }
    Result<Size> size(int tree) override {
        if (auto const group = TRY(btrfs::group(tree))) return Size{group->referenced, group->exclusive};
        UniqueFd copy{::openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        if (!copy) return fail(errno, "open the tree");
        return measure_tree(std::move(copy), true);
    }
    std::optional<std::int64_t> made_at(int tree) override { return btrfs::made_at(tree); }
};

}  // namespace

std::unique_ptr<Trees> make_btrfs_trees() { return std::make_unique<BtrfsTrees>(); }

}  // namespace triton::storage
