#pragma once

#include <string>
#include <string_view>

#include "host/cri/container/execution.h"
#include "host/image/image_service.h"
#include "lib/base/result.h"

namespace triton::cri {

/// An image that a container holds, so that it cannot be removed.
struct HeldImage {
    std::string id;  ///< "sha256:.." of its configuration
    std::string uuid;
    std::string tree;  ///< the directory of its files
    ImageExecution execution;
};

/// Finds an image by id or name and holds it for a container. It blocks. Errors: `not_found`; `invalid`.
Result<HeldImage> hold_image(image::Settings const& settings, std::string_view name, std::string const& container);
/// Releases all that a container holds. An image that was only kept for it, because a client has removed it, goes.
Result<> release_images(image::Settings const& settings, std::string const& container);

}  // namespace triton::cri
