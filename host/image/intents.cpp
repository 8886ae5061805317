#include "host/image/intents.h"

#include <string>
#include <utility>
#include <vector>

#include "host/image/layer_trees.h"
#include "host/image/site.h"

namespace triton::image {

namespace {

constexpr auto tree_patience = std::chrono::minutes(10);

/// Removes a tree that nothing needs. Nobody can begin to need it meanwhile: others take its lock before they look
/// whether it exists.
Result<> destroy_unless_needed(Workshop& shop, std::string_view chain, IntentId intent) {
    LayerTrees trees(*shop.pool);
    if (TRY(shop.catalog.leave_to_others(chain, intent)) || !TRY(shop.pool->exists(LayerTrees::tree_of(chain)))) return {};
    content::KeyLock const lock =
        TRY(shop.store.lock({chain_key(chain)}, std::chrono::steady_clock::now() + tree_patience));
    if (TRY(shop.catalog.leave_to_others(chain, intent))) return {};
    return trees.destroy(chain);
}

Result<> delete_own_snapshot(Workshop& shop, Intent const& intent) {
    auto const tree = TRY(storage::TreeName::parse(*intent.snapshot_of));
    auto const deleted = shop.pool->delete_snapshot(tree, snapshot_of(intent.id));
    if (deleted || deleted.error().kind == ErrorKind::not_found) return {};
    return deleted;
}

Result<> derive(Workshop& shop, Uuid const& uuid) {
    auto const image = TRY(shop.catalog.find(uuid));
    return image ? write_derived(shop.site, *image) : remove_derived(shop.site, uuid);
}

}  // namespace

storage::SnapshotName snapshot_of(IntentId intent) {
    return *storage::SnapshotName::parse("imgadm-" + std::to_string(std::to_underlying(intent)));
}

std::string chain_key(std::string_view chain) { return "layer " + std::string(chain); }
std::string image_key(Uuid const& image) { return "image " + image.text(); }

Result<> finish_intent(Workshop& shop, Intent const& intent) {
    TRY(LayerTrees(*shop.pool).destroy_unfinished(intent.id));
    if (intent.snapshot_of) TRY(delete_own_snapshot(shop, intent));  // the clone that was made from it is gone
    // The highest first: on ZFS it is a clone of those below. A chain's hash does not tell its place, so a tree that
    // another one still needs is tried again.
    std::vector<std::string> left = intent.chains;
    for (std::size_t round = 0; round < intent.chains.size() && !left.empty(); ++round) {
        std::vector<std::string> busy;
        for (std::string const& chain : left) {
            auto const done = destroy_unless_needed(shop, chain, intent.id);
            if (!done && done.error().kind != ErrorKind::busy) return done;
            if (!done) busy.push_back(chain);
        }
        if (busy.size() == left.size()) break;  // a machine is made from it; a later removal of its image removes it
        left = std::move(busy);
    }
    if (intent.image) TRY(derive(shop, *intent.image));
    return shop.catalog.end_intent(intent.id);
}

Result<> recover_intents(Workshop& shop) {
    for (Intent const& intent : TRY(shop.catalog.intents())) {
        std::vector<std::string> keys{intent.owner};
        if (intent.image) keys.push_back(image_key(*intent.image));
        auto const lock = shop.store.lock(std::move(keys), std::chrono::steady_clock::now());
        if (!lock && (lock.error().kind == ErrorKind::timeout || lock.error().kind == ErrorKind::busy)) continue;
        if (!lock) return std::unexpected(lock.error());
        if (!TRY(shop.catalog.has_intent(intent.id))) continue;  // its owner has finished it since we looked
        if (auto const done = finish_intent(shop, intent); !done) {
            shop.observer->warning("what is left of the " + intent.purpose +
                                   " cannot be removed now: " + done.error().text());
        }
    }
    return {};
}

Result<OpenIntent> OpenIntent::begin(Workshop& shop, std::string_view purpose, std::optional<Uuid> const& image,
                                     std::span<std::string const> chains,
                                     std::optional<std::string> const& snapshot_of) {
    auto const id = TRY(shop.catalog.begin_intent(shop.owner, purpose, image, chains, snapshot_of));
    Intent intent{.id = id,
                  .owner = shop.owner,
                  .purpose = std::string(purpose),
                  .image = image,
                  .chains = {chains.begin(), chains.end()},
                  .snapshot_of = snapshot_of};
    return OpenIntent(shop, std::move(intent));
}

Result<> OpenIntent::add(std::string_view chain) {
    TRY(shop_->catalog.add_to_intent(intent_.id, chain));
    intent_.chains.emplace_back(chain);
    return {};
}

}  // namespace triton::image
