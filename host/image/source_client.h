#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/content/store.h"
#include "host/image/image_service.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// What the sources of imgadm.conf have; `only`: the URL of one of them. A source that does not answer is told as a
/// warning when there are others. Errors: `not_found` without a source; of the last source when none has answered.
Result<std::vector<AvailableImage>> available_images(Workshop& shop, std::string_view only);

/// Errors: `not_found`: "image <uuid> was not found in any image source".
Result<AvailableImage> available_image(Workshop& shop, Uuid const& uuid, std::string_view only);

/// Imports an image by its UUID, after the images that it is an increment of.
Result<Imported> import_from_source(Workshop& shop, Uuid const& uuid, ImportOptions const& options);

/// The file of an installed image once more, from the source that it came from.
Result<content::Blob> fetch_image_file(Workshop& shop, Image const& image, content::LeaseId lease);

/// Whether a source answers as what it is said to be. Errors: why it does not.
Result<> ping_source(Workshop& shop, Source const& source);

/// Whether the source's policy lets content with this name and digest in. Errors: `denied`: no signature where one is
/// required, or one that is not good.
Result<> check_source_signature(Workshop& shop, Source const& source, std::string const& name,
                                role::Digest const& digest);

}  // namespace triton::image
