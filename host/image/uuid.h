#pragma once

#include <string_view>

#include "lib/base/uuid.h"

namespace triton::image {

/// Version 5: the same name in the same space always has the same UUID. Source: RFC 9562, section 5.5.
Uuid uuid_of_name(Uuid const& space, std::string_view name);

/// The space in which an image that comes without a UUID gets one, from what it holds.
Uuid const& image_space();

}  // namespace triton::image
