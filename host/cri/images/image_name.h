#pragma once

#include <string>
#include <string_view>

#include "host/image/reference.h"
#include "lib/base/result.h"

namespace triton::cri {

/// Reads the name of an image as users of Kubernetes write it: "nginx" is docker.io/library/nginx:latest, and of a name
/// with tag and digest the digest counts. Errors: `invalid`.
Result<image::RegistryReference> parse_image_name(std::string_view text);

/// "docker.io/library/nginx"
std::string repository_of(image::RegistryReference const& reference);

/// "docker.io/library/nginx@sha256:..."
std::string digest_name(image::RegistryReference const& reference, std::string_view digest);

}  // namespace triton::cri
