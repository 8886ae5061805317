#pragma once

#include <expected>
#include <string_view>

#include "host/image/image_service.h"
#include "programs/imgadm/failure.h"

namespace triton::program {

/// A UUID on a command line.
std::expected<Uuid, Failure> parse_uuid(std::string_view text);

/// The installed image that a UUID or a reference names. The service is asked only for references: a UUID that is not
/// installed is reported when it is used.
std::expected<Uuid, Failure> find_installed(image::ImageService& service, std::string_view text);

}  // namespace triton::program
