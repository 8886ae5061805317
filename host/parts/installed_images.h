#pragma once

#include <optional>
#include <string>

#include "host/image/image_service.h"
#include "host/machine/host.h"
#include "host/machine/store.h"

namespace triton::parts {

/// The images that imgadm has installed. Its catalog is opened when it is first needed.
class InstalledImages final : public machine::Images {
public:
    explicit InstalledImages(machine::Layout const& layout) : root_(layout.root) {}
    Result<std::vector<machine::InstalledImage>> list() override;
    Result<machine::ImageTree> find(Uuid const& image) override;
    Result<> hold(Uuid const& image, Uuid const& holder) override;
    Result<> release(Uuid const& image, Uuid const& holder) override;
    Result<> release_all(Uuid const& holder) override;

private:
    Result<image::ImageService*> service();
    std::string root_;
    std::optional<image::ImageService> service_;
};

}  // namespace triton::parts
