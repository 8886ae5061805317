#include "host/parts/installed_images.h"

namespace triton::parts {

Result<image::ImageService*> InstalledImages::service() {
    if (!service_) service_.emplace(TRY(image::ImageService::open_for_holding(image::Settings{.root = root_})));
    return &*service_;
}

Result<std::vector<machine::InstalledImage>> InstalledImages::list() {
    std::vector<machine::InstalledImage> images;
    for (image::Image const& one : TRY(TRY(service())->list()))
        images.push_back({one.uuid(), one.manifest.name, one.manifest.version, one.manifest.published_at});
    return images;
}

Result<machine::ImageTree> InstalledImages::find(Uuid const& image) {
    image::ImageService* const images = TRY(service());
    image::Image const found = TRY(images->get(image));
    return machine::ImageTree{TRY(storage::TreeName::parse(found.tree)), *storage::SnapshotName::parse("final"),
                              found.manifest.title()};
}

namespace {

/// How `imgadm delete` names a machine that needs the image.
std::string holder_text(Uuid const& holder) { return "machine " + holder.text(); }

}  // namespace

Result<> InstalledImages::hold(Uuid const& image, Uuid const& holder) {
    return TRY(service())->hold(image, holder_text(holder));
}

Result<> InstalledImages::release(Uuid const& image, Uuid const& holder) {
    return TRY(service())->release(image, holder_text(holder));
}

Result<> InstalledImages::release_all(Uuid const& holder) { return TRY(service())->release_all(holder_text(holder)); }

}  // namespace triton::parts
