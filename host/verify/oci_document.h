#pragma once

#include <string>
#include <string_view>

#include "host/role/verify_messages.h"
#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace triton::verify {

/// Checks an image index or manifest of OCI or Docker. Returns its media type. Errors: as of read_document().
/// Source: OCI image-spec 1.1, image-index.md and manifest.md; Docker distribution, manifest-v2-2.md.
Result<std::string> check_image_document(json::Node const& node, role::ReadDocument const& request);

/// Checks the configuration of an image. Returns its media type. Source: OCI image-spec, config.md.
Result<std::string> check_image_config(json::Node const& node, role::ReadDocument const& request);

/// Checks a registry's list of tags. Source: OCI distribution-spec, "Listing Tags".
Result<std::string> check_tags(json::Node const& node);

}  // namespace triton::verify
