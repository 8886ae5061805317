#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/image/image_service.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// Reads all blobs again. A bad one is quarantined, and fetched again from where its image came from.
Result<ScrubReport> scrub_content(Workshop& shop);

/// One sentence for each thing that refers to a digest. Errors: `not_found`.
Result<std::vector<std::string>> reasons_for(Workshop& shop, std::string_view digest);

}  // namespace triton::image
