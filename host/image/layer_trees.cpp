#include "host/image/layer_trees.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace triton::image {

namespace {

constexpr std::string_view prefix = "sha256:";
constexpr std::string_view group = "layers";

/// Parses a name that we have made ourselves.
storage::TreeName known_name(std::string const& text) { return *storage::TreeName::parse(text); }

storage::TreeName unfinished(IntentId intent) {
    return known_name("building/" + std::to_string(std::to_underlying(intent)));
}

Result<> destroy_if_there(storage::Pool& pool, storage::TreeName const& tree) {
    auto const destroyed = pool.destroy(tree);
    if (destroyed || destroyed.error().kind == ErrorKind::not_found) return {};
    return destroyed;
}

}  // namespace

storage::TreeName LayerTrees::tree_of(std::string_view chain) {
    return known_name(std::string(group) + "/" + std::string(chain.substr(prefix.size())));
}

storage::SnapshotName LayerTrees::final_snapshot() { return *storage::SnapshotName::parse("final"); }

Result<bool> LayerTrees::has(std::string_view chain) { return has(tree_of(chain)); }

Result<bool> LayerTrees::has(storage::TreeName const& tree) {
    if (!TRY(pool_->exists(tree))) return false;
    auto const snapshots = pool_->snapshots(tree);
    if (snapshots) return std::ranges::find(*snapshots, final_snapshot()) != snapshots->end();
    // A damaged tree is as good as none, and one may have been deleted meanwhile.
    ErrorKind const kind = snapshots.error().kind;
    if (kind == ErrorKind::corrupt || kind == ErrorKind::not_found) return false;
    return std::unexpected(snapshots.error());
}

Result<> LayerTrees::name(storage::TreeName const& built, std::string_view chain) {
    TRY(destroy(chain));
    return pool_->rename(built, tree_of(chain));
}

Result<std::size_t> LayerTrees::present(std::span<Layer const> layers) {
    for (std::size_t count = layers.size(); count > 0; --count) {
        if (TRY(has(layers[count - 1].chain))) return count;
    }
    return std::size_t{0};
}

Result<> LayerTrees::destroy(std::string_view chain) { return destroy_if_there(*pool_, tree_of(chain)); }

Result<> LayerTrees::destroy_unfinished(IntentId intent) { return destroy_if_there(*pool_, unfinished(intent)); }

Result<std::vector<std::string>> LayerTrees::list() {
    std::vector<std::string> chains;
    for (storage::TreeName const& tree : TRY(pool_->list(group))) {
        std::string chain = std::string(prefix) + tree.text().substr(group.size() + 1);
        if (role::Digest::parse(chain)) chains.push_back(std::move(chain));  // else somebody else's
    }
    return chains;
}

storage::TreeName TreeBuilder::name() const { return unfinished(intent_); }

Result<> TreeBuilder::begin(std::optional<std::string> const& base) {
    TRY(destroy_if_there(*pool_, name()));
    if (base) return pool_->clone(LayerTrees::tree_of(*base), LayerTrees::final_snapshot(), name());
    TRY(pool_->make(name()));
    UniqueFd const tree = TRY(pool_->open(name()));
    if (::mkdirat(tree.get(), "root", 0755) < 0) return fail(errno, "make the root directory of a layer");
    return {};
}

Result<UniqueFd> TreeBuilder::root() {
    UniqueFd const tree = TRY(pool_->open(name()));
    UniqueFd root(::openat(tree.get(), "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!root) return fail(errno, "open the root directory of a layer");
    return root;
}

Result<role::Unpacked> TreeBuilder::apply(int blob, ArchiveKind kind, std::string_view diff_id,
                                          Progress const& progress) {
    UniqueFd const directory = TRY(root());
    content::UnpackRequest request{.applies_whiteouts = kind == ArchiveKind::layer};
    if (!diff_id.empty()) request.diff_id = TRY(role::Digest::parse(diff_id));
    return content::unpack(jobs_, request, blob, directory.get(), progress);
}

Result<> TreeBuilder::finish(std::string_view chain) {
    {
        // Once for all files: fsync(2) of each would take minutes.
        UniqueFd const tree = TRY(pool_->open(name()));
        if (::syncfs(tree.get()) < 0) return fail(errno, "write out the files of a layer");
    }
    TRY(pool_->freeze(name(), LayerTrees::final_snapshot()));
    return LayerTrees(*pool_).name(name(), chain);
}

}  // namespace triton::image
