#pragma once

#include <string>

#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace triton::verify {

/// A manifest of IMGAPI, version 2: what could reach a path, a size or a URL of ours is checked here; the rest is
/// host/image's. Returns an empty media type. Errors: as of read_document().
Result<std::string> check_imgapi_manifest(json::Node const& node);
/// An array of them.
Result<std::string> check_imgapi_list(json::Node const& node);

}  // namespace triton::verify
