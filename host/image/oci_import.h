#pragma once

#include <string>

#include "host/image/image_service.h"
#include "host/image/installation.h"
#include "host/image/oci_origin.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// The name for an image that does not have one.
struct OciName {
    std::string reference;  ///< what the user named, in canonical form
    std::string source;     ///< "docker.io", "oci:/srv/x"
    std::string name;
    std::string version;
    bool has_tag = false;  ///< the reference may change its meaning, so its present one is kept
};

OciName name_of(RegistryReference const& reference);
OciName name_of(LayoutReference const& reference);

/// What the reference means now: the digest of the manifest or index. Only that document is fetched.
Result<OciDocument> resolve(OciOrigin& origin);

/// Reads manifest and configuration for the wanted platform. Errors: `not_found`, `corrupt`, `unsupported`.
Result<Plan> plan_oci(OciOrigin& origin, OciDocument const& root, OciName const& name, ImportOptions const& options);

}  // namespace triton::image
