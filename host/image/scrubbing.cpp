#include "host/image/scrubbing.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "host/image/installation.h"
#include "host/image/oci_origin.h"
#include "host/image/source_client.h"

namespace triton::image {

namespace {

std::string full_title(Image const& image) { return image.uuid().text() + " (" + image.manifest.title() + ")"; }

/// The image that owns blobs, if the owner is an image.
std::optional<Image> image_of_owner(Workshop& shop, content::Owner const& owner) {
    if (owner.kind != "image") return std::nullopt;
    auto const uuid = Uuid::parse(owner.id);
    if (!uuid) return std::nullopt;
    auto image = shop.catalog.get(*uuid);
    return image ? std::optional(*std::move(image)) : std::nullopt;
}

Result<std::unique_ptr<OciOrigin>> origin_of(Workshop& shop, content::LeaseId lease, std::string const& text) {
    Reference const reference = TRY(parse_reference(text));
    if (auto const* const registry = std::get_if<RegistryReference>(&reference))
        return open_registry(shop, lease, *registry, TRY(registry_access(shop, *registry, {})));
    if (auto const* const layout = std::get_if<LayoutReference>(&reference); layout && !layout->is_archive)
        return open_layout(shop, lease, *layout);
    return fail(ErrorKind::unsupported, text + " cannot be asked again");
}

/// Whether a registry gives it among its manifests, and not among its blobs. Source: OCI distribution-spec, "Pull".
bool is_manifest(content::BlobFacts const& facts) {
    auto const all = accepted_media_types();
    return std::ranges::find(all, facts.media_type.substr(0, facts.media_type.find(';'))) != all.end();
}

/// Fetches a blob again: the bytes of that digest.
Result<> fetch_again(Workshop& shop, Image const& image, content::Scrubbed const& bad) {
    auto lease = TRY(WorkLease::make(shop, "repair of " + bad.digest.text()));
    if (image.reference.empty()) {
        TRY(fetch_image_file(shop, image, lease.id(), ""));
    } else {
        auto const origin = TRY(origin_of(shop, lease.id(), image.reference));
        // Its size, as it was when it was verified: the file may have another one by now.
        auto const blob = TRY(shop.store.why(bad.digest)).blob;
        Descriptor const wanted{.digest = bad.digest.text(), .size = blob ? blob->size : bad.bytes};
        if (blob && is_manifest(blob->facts)) {
            TRY(origin->document(wanted, role::DocumentKind::image));
        } else {
            TRY(origin->bring({&wanted, 1}, {.arrived = [](std::size_t, content::Blob const&) { return Result<>(); },
                                             .progress = [](std::uint64_t, std::string_view) {},
                                             .cancel = shop.settings.cancel}));
        }
    }
    TRY(lease.end());
    if (!TRY(shop.store.find(bad.digest))) return fail(ErrorKind::not_found, bad.digest.text() + " no longer exists");
    return {};
}

ScrubFinding repair(Workshop& shop, content::Scrubbed const& bad) {
    ScrubFinding finding{.digest = bad.digest.text(), .images = {}, .is_quarantined = true, .reason = *bad.fault};
    for (content::Owner const& owner : bad.owners) {
        auto const image = image_of_owner(shop, owner);
        finding.images.push_back(image ? full_title(*image) : owner.kind + " " + owner.id);
        if (!image || finding.was_fetched_again || !shop.check_cancelled()) continue;
        auto const fetched = fetch_again(shop, *image, bad);
        finding.was_fetched_again = fetched.has_value();
        if (!fetched) shop.observer->warning("cannot fetch " + finding.digest + " again: " + fetched.error().text());
    }
    return finding;
}

/// The images without a tree: a pool that was lost or damaged, or one that is not mounted.
Result<std::vector<ScrubFinding>> lost_trees(Workshop& shop) {
    std::vector<ScrubFinding> lost;
    for (Image const& image : TRY(shop.catalog.list())) {
        auto const damage = TRY(damage_of(shop, image.uuid()));
        if (!damage || damage->has_tree) continue;
        auto const layers = TRY(shop.catalog.layers(image.uuid()));
        lost.push_back({.digest = layers.empty() ? image.tree : layers.back().chain,
                        .images = {full_title(image)},
                        .is_tree = true,
                        .reason = "its tree, " + image.tree + ", is missing"});
    }
    return lost;
}

}  // namespace

Result<ScrubReport> scrub_content(Workshop& shop) {
    ScrubReport report;
    std::vector<content::Scrubbed> bad;
    auto const note = [&](content::Scrubbed const& blob) {
        ++report.blobs;
        report.bytes += blob.bytes;
        if (blob.fault) bad.push_back(blob);
        return true;
    };
    auto const read = shop.store.scrub(note, shop.settings.cancel);
    if (!read) report.failure = read.error();
    for (content::Scrubbed const& blob : bad)
        report.bad.push_back(repair(shop, blob));
    auto lost = lost_trees(shop);
    if (!lost && read) report.failure = lost.error();  // what was found is told all the same
    if (lost) std::ranges::move(*lost, std::back_inserter(report.bad));
    return report;
}

Result<std::vector<std::string>> reasons_for(Workshop& shop, std::string_view digest) {
    std::vector<std::string> reasons;
    auto const parsed = TRY(role::Digest::parse(digest));
    content::Why const why = TRY(shop.store.why(parsed));
    if (why.blob) {
        reasons.push_back("it is a blob of " + std::to_string(why.blob->size) + " bytes" +
                          (why.blob->facts.source.empty() ? "" : " from " + why.blob->facts.source));
        if (why.blob->is_pinned) reasons.emplace_back("it is pinned");
        if (!why.blob->quarantined.empty()) reasons.push_back("it is in quarantine: " + why.blob->quarantined);
    }
    for (content::Owner const& owner : why.owners) {
        auto const image = image_of_owner(shop, owner);
        reasons.push_back(image ? "image " + full_title(*image) + " refers to it"
                                : owner.kind + " " + owner.id + " refers to it");
    }
    for (Uuid const& uuid : TRY(shop.catalog.images_with(digest))) {
        bool const is_told = std::ranges::any_of(why.owners, [&uuid](content::Owner const& owner) {
            return owner.kind == "image" && owner.id == uuid.text();
        });
        auto const image = is_told ? std::nullopt : TRY(shop.catalog.find(uuid));
        if (image) reasons.push_back("image " + full_title(*image) + " is made of it");
    }
    for (std::string const& lease : why.leases)
        reasons.push_back("a lease protects it: " + lease);
    if (why.collected) reasons.push_back("the next gc takes it: " + *why.collected);
    if (reasons.empty()) return fail(ErrorKind::not_found, "nothing here has or refers to " + std::string(digest));
    return reasons;
}

}  // namespace triton::image
