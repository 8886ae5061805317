#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "host/content/unpack_job.h"
#include "host/image/catalog.h"
#include "host/storage/pool.h"
#include "lib/base/result.h"

namespace triton::image {

/// The trees of layers: "layers/<hex of the ChainID>", each with its file system in root/ and a snapshot "final". A
/// tree has that name only when it is complete and on disk; until then it is "building/<number>".
class LayerTrees {
public:
    explicit LayerTrees(storage::Pool& pool) : pool_(&pool) {}

    static storage::TreeName tree_of(std::string_view chain);
    static storage::SnapshotName final_snapshot();

    Result<bool> has(std::string_view chain);
    /// How many of the lowest layers are there already as one tree: 0 for none, all for the whole image.
    Result<std::size_t> present(std::span<Layer const> layers);
    /// Whether layers below the top are kept as trees of their own, too: where that costs nothing.
    [[nodiscard]] bool keeps_all() const { return pool_->clones_are_free(); }

    /// Destroys the tree if it is there. Errors: `busy`, with what is made from it.
    Result<> destroy(std::string_view chain);
    /// Destroys what a killed command with that intent has left half built.
    Result<> destroy_unfinished(IntentId intent);
    /// Trees of layers, by their ChainIDs.
    Result<std::vector<std::string>> list();

private:
    storage::Pool* pool_;
};

/// Builds the tree of an image, layer by layer. For one thread, which has the pool to itself.
class TreeBuilder {
public:
    using Progress = std::function<void(role::Unpacking const& progress)>;

    TreeBuilder(storage::Pool& pool, IntentId intent, content::JobSettings jobs)
        : pool_(&pool), intent_(intent), jobs_(std::move(jobs)) {}

    /// An empty tree, or a clone of the tree of `base`.
    Result<> begin(std::optional<std::string> const& base);
    /// Unpacks one layer over what is there. `diff_id`: "sha256:<hex>"; empty: it is not known.
    Result<role::Unpacked> apply(int blob, role::Compression compression, std::string_view diff_id,
                                 Progress const& progress);
    /// Makes it durable, and gives it its name.
    Result<> finish(std::string_view chain);

    /// The open directory root/ of the tree that is being built.
    Result<UniqueFd> root();
    [[nodiscard]] storage::TreeName name() const;

private:
    storage::Pool* pool_;
    IntentId intent_;
    content::JobSettings jobs_;
};

}  // namespace triton::image
