#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/content/fetcher.h"
#include "host/content/store.h"
#include "host/image/image_service.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// The images of the sources in imgadm.conf. `only`: the URL of one of them. A source that does not answer causes a
/// warning when there are others. Errors: `not_found` without a source; those of the last source when none has
/// answered.
Result<std::vector<AvailableImage>> available_images(Workshop& shop, std::string_view only);

/// The image with a UUID. Errors: `not_found`: "image <uuid> was not found in any image source".
Result<AvailableImage> available_image(Workshop& shop, Uuid const& uuid, std::string_view only);

/// Imports an image by its UUID, and before it the images that it is an increment of.
Result<Imported> import_from_source(Workshop& shop, Uuid const& uuid, ImportOptions const& options);

/// The file of an installed image: that of the store, or else fetched again, from the source named `only`, or, when
/// that is empty, from the one that it came from.
Result<content::Blob> fetch_image_file(Workshop& shop, Image const& image, content::LeaseId lease,
                                       std::string_view only);

/// Checks that a source answers as its type says. Errors: why it does not.
Result<> ping_source(Workshop& shop, Source const& source);

/// Credentials, certificates and proxies for a source. Errors: those of reading them.
Result<content::Access> access_of(Workshop const& shop, Source const& source);

/// The URLs of what a source and its mirrors have at a path.
std::vector<std::string> urls_of(Source const& source, std::string const& path);

/// Checks that the source's policy allows content with this name and digest. Errors: `denied`: a required signature is
/// missing, or a signature is not good.
Result<> check_source_signature(Workshop& shop, Source const& source, std::string const& name,
                                role::Digest const& digest);

}  // namespace triton::image
