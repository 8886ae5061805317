#pragma once

#include <string_view>

#include "lib/base/uuid.h"

namespace triton::image {

/// A UUID of version 5: the same name in the same space always has the same one. Source: RFC 9562, section 5.5.
Uuid uuid_of_name(Uuid const& space, std::string_view name);

/// The space of UUIDs for images that come without one; they are made from the content.
Uuid const& image_space();

}  // namespace triton::image
