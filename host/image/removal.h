#pragma once

#include <vector>

#include "host/image/image_service.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// Deletes an image. It is no longer listed at once; then its trees and blobs are removed, except for those that others
/// need.
/// Errors: `not_found`; `busy`: "image ... has dependent clones: ..."; `refused` when it is pinned.
Result<> remove_image(Workshop& shop, Uuid const& uuid);

/// Deletes an image unless it has been deleted, pinned or used since unused_images() named it. Returns whether it was
/// deleted.
Result<bool> remove_if_unused(Workshop& shop, Uuid const& uuid);

/// The unpinned images from which nothing was made; increments come before what they are increments of.
Result<std::vector<Image>> unused_images(Workshop& shop);

/// Collects blobs that nothing refers to, after what the command was for. A failure is reported, and is not an error.
void collect_quietly(Workshop& shop);

/// Collects blobs that nothing refers to and trees without an image, or only finds them. Returns them as the command
/// shows them.
Result<std::vector<Victim>> collect_garbage(Workshop& shop, bool is_dry_run);

}  // namespace triton::image
