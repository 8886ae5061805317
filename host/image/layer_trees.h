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
/// tree gets that name when it is complete and on disk; before, it is "building/<number>".
class LayerTrees {
public:
    explicit LayerTrees(storage::Pool& pool) : pool_(&pool) {}

    static storage::TreeName tree_of(std::string_view chain);
    static storage::SnapshotName final_snapshot();

    /// Whether the tree exists with its snapshot. One without it has been damaged: nothing can be made from it.
    Result<bool> has(std::string_view chain);
    /// The same for the tree of an image.
    Result<bool> has(storage::TreeName const& tree);
    /// How many of the lowest layers already exist as one tree: 0 for none, all for the whole image.
    Result<std::size_t> present(std::span<Layer const> layers);
    /// Whether layers below the top are also kept as trees of their own, where that costs nothing.
    [[nodiscard]] bool keeps_all() const { return pool_->clones_are_free(); }

    /// Gives a complete tree, "building/<number>", its name. What is left there of a damaged one is destroyed.
    Result<> name(storage::TreeName const& built, std::string_view chain);
    /// Destroys the tree if it exists. Errors: `busy`, with what was made from it.
    Result<> destroy(std::string_view chain);
    /// Destroys what a killed command with that intent has left half built.
    Result<> destroy_unfinished(IntentId intent);
    /// The ChainIDs of all trees of layers.
    Result<std::vector<std::string>> list();

private:
    storage::Pool* pool_;
};

/// What an archive is: a change of what is below it, or files whose names have no special meaning.
enum class ArchiveKind : std::uint8_t { layer, plain };

/// Builds the tree of an image, layer by layer. For one thread, which must have the pool to itself.
class TreeBuilder {
public:
    using Progress = std::function<void(role::Unpacking const& progress)>;

    TreeBuilder(storage::Pool& pool, IntentId intent, content::JobSettings jobs)
        : pool_(&pool), intent_(intent), jobs_(std::move(jobs)) {}

    /// Begins with an empty tree, or with a clone of the tree of `base`.
    Result<> begin(std::optional<std::string> const& base);
    /// Unpacks one archive over the others. `diff_id`: "sha256:<hex>"; empty: unknown.
    Result<role::Unpacked> apply(int blob, ArchiveKind kind, std::string_view diff_id, Progress const& progress);
    /// Makes the tree durable, and gives it its name.
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
