#include <cerrno>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/storage/copy_tree.h"
#include "host/storage/project_quota.h"
#include "host/storage/tree_size.h"
#include "host/storage/trees.h"

namespace triton::storage {

namespace {

constexpr std::uint64_t beyond_all = std::uint64_t{1} << 60;  // bytes

Result<UniqueFd> open_tree_again(int directory) {
    UniqueFd opened{::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!opened) return fail(errno, "open the tree");
    return opened;
}

/// Each tree and each snapshot is a directory, made as a copy of all files. Where the file system can, the copies share
/// their blocks.
class CopiedTrees final : public Trees {
public:
    explicit CopiedTrees(Backend backend) : backend_(backend) {}

    [[nodiscard]] Backend kind() const override { return backend_; }
    [[nodiscard]] bool copies_at_once() const override { return false; }

    Result<> make(int parent, std::string const& name) override {
        auto const made = TRY(make_directory(parent, name));
        if (::fchmod(made.get(), 0755) != 0) return fail(errno, "set the mode of " + name);
        return {};
    }

    Result<Left> copy(int tree, int parent, std::string const& name, std::optional<std::uint64_t> quota) override {
        auto made = TRY(make_directory(parent, name));
        // Made while it is empty: everything made in it then belongs to its project. Limited when it is full: what was
        // there may be more than there may be now.
        UniqueFd const limited{quota ? ::fcntl(made.get(), F_DUPFD_CLOEXEC, 0) : -1};
        if (quota && !limited) return fail(errno, "open directory " + name);
        if (quota) TRY(project_quota::set(made.get(), beyond_all));
        auto from = TRY(open_tree_again(tree));
        CopyWay const way = backend_ == Backend::reflink ? CopyWay::reflink : CopyWay::copy;
        auto const copied = TRY(copy_tree(std::move(from), std::move(made), way));
        if (quota) TRY(project_quota::set(limited.get(), quota));
        return copied.copied_bytes > 0 ? Left::content : Left::names;
    }

    Result<Left> copy_final(int tree, int parent, std::string const& name) override {
        return copy(tree, parent, name, {});
    }

    /// XFS writes its journal in order: when the last change is durable, so are all before it, and shared blocks were
    /// written long ago. Elsewhere only the whole file system can be made durable.
    Result<> settle(int directory, Left left) override {
        struct statfs facts;
        bool const is_ordered = backend_ == Backend::reflink && left == Left::names &&
                                ::fstatfs(directory, &facts) == 0 && facts.f_type == XFS_SUPER_MAGIC;
        if ((is_ordered ? ::fsync(directory) : ::syncfs(directory)) != 0) return fail(errno, "make the tree durable");
        return {};
    }

    Result<> set_quota(int tree, std::optional<std::uint64_t> bytes) override {
        return project_quota::set(tree, bytes);
    }
    Result<std::optional<std::uint64_t>> quota(int tree) override { return project_quota::get(tree); }
    bool keeps_quotas(int tree) override { return project_quota::are_kept(tree); }
    Result<Size> size(int tree) override { return measure_tree(TRY(open_tree_again(tree)), backend_ == Backend::reflink); }
    std::optional<std::int64_t> made_at(int tree) override {
        struct statx facts{};
        if (::statx(tree, "", AT_EMPTY_PATH, STATX_BTIME, &facts) != 0 || (facts.stx_mask & STATX_BTIME) == 0)
            return std::nullopt;
        return facts.stx_btime.tv_sec * 1'000'000 + facts.stx_btime.tv_nsec / 1000;
    }

private:
    static Result<UniqueFd> make_directory(int parent, std::string const& name) {
        if (::mkdirat(parent, name.c_str(), 0700) != 0) return fail(errno, "create directory " + name);
        UniqueFd made{::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
        if (!made) return fail(errno, "open directory " + name);
        return made;
    }

    Backend backend_;
};

}  // namespace

std::unique_ptr<Trees> make_copied_trees(Backend backend) { return std::make_unique<CopiedTrees>(backend); }

}  // namespace triton::storage
