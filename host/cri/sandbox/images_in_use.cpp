#include "host/cri/sandbox/images_in_use.h"

#include <utility>

#include "host/cri/images/library.h"
#include "host/image/image_service.h"
#include "host/image/site.h"
#include "host/storage/pool.h"
#include "lib/json/lookup.h"
#include "lib/json/text.h"

namespace triton::cri {

Result<HeldImage> hold_image(image::Settings const& settings, std::string_view name, std::string const& container) {
    ImageLibrary library(settings, [](std::string const& /*warning*/) {});
    auto const records = TRY(library.list());
    ImageRecord const* const found = TRY(find_record(records, name));
    if (!found) return fail(ErrorKind::not_found, "image " + json::quoted(name) + " is not here");
    auto service = TRY(image::ImageService::open_for_holding(settings));
    TRY(service.hold(found->uuid, container_holder(container)));
    image::Image const image = TRY(service.get(found->uuid));
    auto const site = TRY(image::read_site(settings));
    auto const pool = TRY(storage::open_pool(site.storage));
    auto const tree = TRY(storage::TreeName::parse(image.tree));
    auto const snapshot = TRY(storage::SnapshotName::parse("final"));
    HeldImage held{.id = found->id, .uuid = found->uuid.text(), .tree = {}, .execution = {}};
    held.tree = TRY(pool->snapshot_path(tree, snapshot)) + "/root";
    if (auto const* const document = image.manifest.document.get<json::Object>())
        held.execution = read_execution(json::object_of(json::object_of(*document, "oci"), "execution"));
    return held;
}

Result<> release_images(image::Settings const& settings, std::string const& container) {
    {
        auto service = TRY(image::ImageService::open_for_holding(settings));
        TRY(service.release_all(container_holder(container)));
    }
    // What fails here, the end of the next container or the next start tries again.
    (void)ImageLibrary(settings, [](std::string const& /*warning*/) {}).remove_unwanted();
    return {};
}

}  // namespace triton::cri
