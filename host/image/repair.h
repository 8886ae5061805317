#pragma once

#include "host/image/image_service.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// Brings what a damaged image lacks again: blobs with the digests that it has, from where it came from, and its tree
/// from these. Errors: those of an import; nothing is changed then.
Result<Imported> repair_image(Workshop& shop, Image const& image, ImportOptions options);

}  // namespace triton::image
