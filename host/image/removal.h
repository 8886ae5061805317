#pragma once

#include <vector>

#include "host/image/image_service.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// Deletes an image: at once it is no longer listed; then its trees and blobs go, except for those that others need.
/// Errors: `not_found`; `busy`: "image ... has dependent clones: ..."; `refused` when it is pinned.
Result<> remove_image(Workshop& shop, Uuid const& uuid);

/// The unpinned images that nothing is made from, increments before what they are increments of.
Result<std::vector<Image>> unused_images(Workshop& shop);

/// What is to be collected, or was, as the command shows it: blobs that nothing refers to, and trees of no image.
Result<std::vector<Victim>> collect_garbage(Workshop& shop, bool is_dry_run);

}  // namespace triton::image
