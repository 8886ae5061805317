#pragma once

#include <string>

#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace triton::verify {

/// Checks a manifest of IMGAPI, version 2: everything that could reach a path, a size or a URL of ours. host/image
/// checks the rest. Returns an empty media type. Errors: as of read_document().
Result<std::string> check_imgapi_manifest(json::Node const& node);
/// Checks that a document is an array, and not too long. host/image checks each manifest: a server's bad one must not
/// hide the others.
Result<std::string> check_imgapi_list(json::Node const& node);

}  // namespace triton::verify
