#include "host/cri/images/library.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <unistd.h>

#include "host/content/database.h"
#include "host/cri/images/digest_names.h"
#include "host/cri/images/image_name.h"
#include "host/image/catalog.h"
#include "host/image/observer.h"
#include "host/image/site.h"

namespace triton::cri {

namespace {

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

}  // namespace

Result<> ImageLibrary::recover() {
    WarningsOnly observer(warn_);
    TRY(image::ImageService::open(settings_, observer));
    auto database = TRY(content::Database::open(TRY(database_path(settings_))));
    auto names = TRY(DigestNames::open(database));
    return names.remove_stale();
}

Result<std::vector<ImageRecord>> ImageLibrary::list() {
    std::string const path = TRY(database_path(settings_));
    if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::vector<ImageRecord>();
    auto database = TRY(content::Database::open_for_reading(path));
    auto catalog = TRY(image::Catalog::open_for_reading(database));
    if (!catalog) return std::vector<ImageRecord>();
    auto names = TRY(DigestNames::open_for_reading(database));
    auto const images = TRY(catalog->list());
    auto const latches = TRY(catalog->latches());
    auto const digests = names ? TRY(names->list()) : std::vector<DigestName>();
    return records_of(images, latches, digests);
}

Result<std::string> ImageLibrary::pull(image::RegistryReference const& reference, std::string const& credentials,
                                       int cancel) {
    WarningsOnly observer(warn_);
    image::Settings settings = settings_;
    settings.cancel = cancel;
    Uuid uuid;
    {
        auto service = TRY(image::ImageService::open(settings, observer));
        uuid = TRY(service.import(reference, {.credentials = credentials, .is_quiet = true, .is_fresh = true})).uuid;
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

Result<> ImageLibrary::remove(std::string_view name) {
    auto const records = TRY(list());
    ImageRecord const* const found = TRY(find_record(records, name));
    if (!found) return {};
    WarningsOnly observer(warn_);
    image::Settings settings = settings_;
    settings.makes_room = true;
    auto service = TRY(image::ImageService::open(settings, observer));
    TRY(unless_missing(service.remove(found->uuid)));
    auto database = TRY(content::Database::open(TRY(database_path(settings_))));
    auto names = TRY(DigestNames::open(database));
    return names.remove_stale();
}

Result<ImageUsage> ImageLibrary::usage() {
    image::Site const site = TRY(image::read_site(settings_));
    auto const pool = TRY(storage::open_pool(site.storage));
    return meter_.measure(*pool, site.storage.path, site.content);
}

}  // namespace triton::cri
