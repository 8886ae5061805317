#pragma once

#include <string>
#include <string_view>

#include "host/role/verify_messages.h"
#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace triton::verify {

/// An OCI image index or manifest, or Docker's. Returns its media type. Errors: as of read_document().
/// Source: OCI image-spec 1.1, image-index.md and manifest.md; Docker distribution, manifest-v2-2.md.
Result<std::string> check_image_document(json::Node const& node, role::ReadDocument const& request);

/// The configuration of an image. Returns its media type. Source: OCI image-spec, config.md.
Result<std::string> check_image_config(json::Node const& node, role::ReadDocument const& request);

/// A registry's list of tags. Source: OCI distribution-spec, "Listing Tags".
Result<std::string> check_tags(json::Node const& node);

}  // namespace triton::verify
