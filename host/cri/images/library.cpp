#include "host/cri/images/library.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <unistd.h>

#include "host/content/database.h"
#include "host/cri/images/digest_names.h"
#include "host/cri/images/image_name.h"
#include "host/cri/images/registry_hosts.h"
#include "host/image/catalog.h"
#include "host/image/observer.h"
#include "host/image/site.h"

namespace triton::cri {

namespace {

constexpr std::string_view container_prefix = "container ";

bool is_container(std::string_view holder) { return holder.starts_with(container_prefix); }

/// Passes warnings on; progress is for terminals.
class WarningsOnly final : public image::Observer {
public:
    explicit WarningsOnly(std::function<void(std::string const&)> const& warn) : warn_(warn) {}
    void progress(image::Progress const& /*progress*/) override {}
    void message(std::string_view /*text*/) override {}
    void warning(std::string_view text) override { warn_(std::string(text)); }

private:
    std::function<void(std::string const&)> const& warn_;
};

Result<std::string> database_path(image::Settings const& settings) {
    return TRY(image::read_site(settings)).content + "/content.db";
}

/// `names`: nullptr: there are none.
Result<NameSources> name_sources(image::Catalog& catalog, DigestNames* names) {
    NameSources sources;
    sources.latches = TRY(catalog.latches());
    if (!names) return sources;
    sources.digests = TRY(names->list());
    sources.hidden = TRY(names->hidden());
    return sources;
}

/// What a request to remove an image finds.
struct Removal {
    Uuid image;
    bool is_held_by_containers = false;  ///< and by nothing else
};

/// Looks for the image of that name, or id. If containers hold it, its names are removed, and it is noted to be removed
/// with the last of them. Nullopt: there is none.
Result<std::optional<Removal>> remove_names(image::Catalog& catalog, DigestNames& names, std::string_view text) {
    auto const images = TRY(catalog.list());
    NameSources const sources = TRY(name_sources(catalog, &names));
    auto const records = records_of(images, sources);
    ImageRecord const* const found = TRY(find_record(records, text));
    if (!found) return std::optional<Removal>();
    Removal removal{.image = found->uuid};
    auto const holders = TRY(catalog.holders(found->uuid));
    removal.is_held_by_containers = !holders.empty() && !found->is_pinned &&
                                    std::ranges::all_of(holders, is_container) &&
                                    TRY(catalog.children(found->uuid)).empty();
    if (!removal.is_held_by_containers) return removal;
    ImageNames const gone = names_of(*found, sources.latches);
    for (std::string const& reference : gone.references)
        TRY(catalog.remove_latch(reference));
    for (std::string const& digest : gone.digests)
        TRY(names.remove({digest, found->uuid}));
    TRY(names.set_unwanted(found->uuid));
    return removal;
}

}  // namespace

std::string container_holder(std::string_view container) { return std::string(container_prefix).append(container); }

Result<> ImageLibrary::recover() {
    WarningsOnly observer(warn_);
    TRY(image::ImageService::open(settings_, observer));
    auto database = TRY(content::Database::open(TRY(database_path(settings_))));
    auto names = TRY(DigestNames::open(database));
    TRY(names.remove_stale());
    return remove_unwanted();
}

Result<std::vector<ImageRecord>> ImageLibrary::list() {
    std::string const path = TRY(database_path(settings_));
    if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::vector<ImageRecord>();
    auto database = TRY(content::Database::open_for_reading(path));
    auto catalog = TRY(image::Catalog::open_for_reading(database));
    if (!catalog) return std::vector<ImageRecord>();
    auto names = TRY(DigestNames::open_for_reading(database));
    auto const images = TRY(catalog->list());
    return records_of(images, TRY(name_sources(*catalog, names ? &*names : nullptr)));
}

Result<std::string> ImageLibrary::pull(image::RegistryReference const& reference, std::string const& credentials,
                                       int cancel) {
    WarningsOnly observer(warn_);
    image::Settings settings = settings_;
    settings.cancel = cancel;
    RegistryHosts registry = TRY(read_registry_hosts(registries_, reference));
    for (std::string const& warning : registry.warnings)
        warn_(warning);
    Uuid uuid;
    {
        auto service = TRY(image::ImageService::open(settings, observer));
        uuid = TRY(service
                       .import(reference, {.credentials = credentials,
                                           .is_quiet = true,
                                           .is_fresh = true,
                                           .hosts = std::move(registry.hosts)}))
                   .uuid;
    }
    auto database = TRY(content::Database::open(TRY(database_path(settings_))));
    auto catalog = TRY(image::Catalog::open(database));
    auto names = TRY(DigestNames::open(database));
    std::string digest = reference.digest;
    if (auto const latch = TRY(catalog.latch(reference.text())); latch && digest.empty()) digest = latch->digest;
    if (!digest.empty()) TRY(names.add({digest_name(reference, digest), uuid}));
    for (ImageRecord const& record : TRY(list()))
        if (record.uuid == uuid) return record.id;
    return fail(ErrorKind::not_found, "pull " + reference.text(), "the image was removed at the same time");
}

Result<> ImageLibrary::remove_image(Uuid const& uuid) {
    WarningsOnly observer(warn_);
    image::Settings settings = settings_;
    settings.makes_room = true;
    auto service = TRY(image::ImageService::open(settings, observer));
    return unless_missing(service.remove(uuid));
}

Result<> ImageLibrary::remove(std::string_view name) {
    std::string const path = TRY(database_path(settings_));
    if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return {};
    auto database = TRY(content::Database::open(path));
    auto catalog = TRY(image::Catalog::open(database));
    auto names = TRY(DigestNames::open(database));
    auto transaction = TRY(database.begin());
    auto const removal = TRY(remove_names(catalog, names, name));
    TRY(transaction.commit());
    if (!removal) return {};
    // Its containers may have gone since.
    if (removal->is_held_by_containers) return remove_unwanted();
    TRY(remove_image(removal->image));
    return names.remove_stale();
}

Result<> ImageLibrary::remove_unwanted() {
    std::string const path = TRY(database_path(settings_));
    if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return {};
    auto database = TRY(content::Database::open_for_reading(path));
    auto names = TRY(DigestNames::open_for_reading(database));
    auto catalog = TRY(image::Catalog::open_for_reading(database));
    if (!names || !catalog) return {};
    for (Uuid const& uuid : TRY(names->unwanted())) {
        if (!TRY(catalog->holders(uuid)).empty()) continue;
        auto const removed = remove_image(uuid);
        if (!removed && removed.error().kind != ErrorKind::busy) warn_(removed.error().text());
    }
    return {};
}

Result<ImageUsage> ImageLibrary::usage() {
    image::Site const site = TRY(image::read_site(settings_));
    auto const pool = TRY(storage::open_pool(site.storage));
    return meter_.measure(*pool, site.storage.path, site.content);
}

}  // namespace triton::cri
