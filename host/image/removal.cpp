#include "host/image/removal.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "host/image/intents.h"
#include "host/image/layer_trees.h"
#include "lib/base/joined.h"

namespace triton::image {

namespace {

constexpr auto removal_patience = std::chrono::hours(1);

/// Why an image must stay, if it must.
Result<std::optional<Error>> reason_to_stay(Workshop& shop, Image const& image) {
    std::string const what = "image " + image.uuid().text();
    if (image.is_pinned)
        return fail(ErrorKind::refused, what + " is pinned; imgadm unpin " + image.uuid().text() + " lets it go")
            .error();
    std::vector<std::string> dependents = TRY(shop.catalog.holders(image.uuid()));
    for (Uuid const& child : TRY(shop.catalog.children(image.uuid())))
        dependents.push_back("image " + child.text());
    if (!dependents.empty())
        return fail(ErrorKind::busy, what + " has dependent clones: " + joined(dependents, ", ")).error();
    return std::optional<Error>();
}

std::vector<std::string> chains_to_remove(std::vector<Layer> const& layers) {
    std::vector<std::string> chains;
    for (Layer const& layer : layers)
        chains.push_back(layer.chain);
    return chains;
}

std::string_view word_of(content::Victim::Kind kind) {
    switch (kind) {
        case content::Victim::Kind::blob: return "blob ";
        case content::Victim::Kind::ingest: return "unfinished download ";
        case content::Victim::Kind::quarantined: return "bad blob ";
    }
    std::unreachable();
}

/// Trees that no row names, because a pool was moved here or a database was restored. What is being built now is not
/// among them: its intent names it.
Result<std::vector<std::string>> stray_trees(Workshop& shop) {
    std::vector<std::string> strays;
    for (std::string const& chain : TRY(LayerTrees(*shop.pool).list())) {
        if (!TRY(shop.catalog.is_needed(chain, IntentId{0}))) strays.push_back(chain);
    }
    return strays;
}

Result<content::KeyLock> lock_image(Workshop& shop, Uuid const& uuid) {
    return shop.lock({image_key(uuid)}, removal_patience);
}

/// Removes an image that is locked and may go, and commits the transaction in which that was found.
Result<> remove_locked(Workshop& shop, Uuid const& uuid, content::Transaction transaction) {
    auto const chains = chains_to_remove(TRY(shop.catalog.layers(uuid)));
    auto intent = TRY(OpenIntent::begin(shop, "deletion of " + uuid.text(), uuid, chains));
    TRY(shop.catalog.remove(uuid));
    TRY(shop.store.remove_references({"image", uuid.text()}));
    TRY(transaction.commit());
    TRY(intent.finish());
    shop.observer->message("Deleted image " + uuid.text());
    collect_quietly(shop);
    return {};
}

}  // namespace

void collect_quietly(Workshop& shop) {
    auto const collected = shop.store.gc();
    if (!collected)
        shop.observer->warning("what nothing refers to any more cannot be removed now: " + collected.error().text());
}

Result<> remove_image(Workshop& shop, Uuid const& uuid) {
    content::KeyLock const alone = TRY(lock_image(shop, uuid));
    content::Transaction transaction = TRY(shop.store.database().begin());
    Image const image = TRY(shop.catalog.get(uuid));
    if (auto reason = TRY(reason_to_stay(shop, image))) return std::unexpected(*std::move(reason));
    return remove_locked(shop, uuid, std::move(transaction));
}

Result<bool> remove_if_unused(Workshop& shop, Uuid const& uuid) {
    content::KeyLock const alone = TRY(lock_image(shop, uuid));
    content::Transaction transaction = TRY(shop.store.database().begin());
    auto const image = TRY(shop.catalog.find(uuid));
    if (!image || TRY(reason_to_stay(shop, *image))) return false;
    TRY(remove_locked(shop, uuid, std::move(transaction)));
    return true;
}

Result<std::vector<Image>> unused_images(Workshop& shop) {
    std::vector<Image> left = TRY(shop.catalog.list());
    std::vector<Image> unused;
    while (true) {
        auto const is_unused = [&](Image const& image) {
            auto const holders = shop.catalog.holders(image.uuid());
            return !image.is_pinned && holders && holders->empty() &&
                   std::ranges::none_of(left,
                                        [&](Image const& other) { return other.manifest.origin == image.uuid(); });
        };
        auto const found = std::ranges::find_if(left, is_unused);
        if (found == left.end()) return unused;
        unused.push_back(std::move(*found));
        left.erase(found);
    }
}

Result<std::vector<Victim>> collect_garbage(Workshop& shop, bool is_dry_run) {
    std::vector<Victim> victims;
    for (std::string const& chain : TRY(stray_trees(shop))) {
        auto const usage = shop.pool->usage(LayerTrees::tree_of(chain));
        victims.push_back({"layer " + chain, "no image has it", usage ? usage->used : 0});
        if (is_dry_run) continue;
        TRY(shop.check_cancelled());
        auto intent = TRY(OpenIntent::begin(shop, "collection of layer " + chain, std::nullopt, {&chain, 1}));
        TRY(intent.finish());
    }
    TRY(shop.check_cancelled());
    for (content::Victim const& victim : TRY(shop.store.gc({.dry_run = is_dry_run})))
        victims.push_back({std::string(word_of(victim.kind)) + victim.name, victim.reason, victim.bytes});
    return victims;
}

}  // namespace triton::image
