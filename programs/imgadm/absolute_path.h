#pragma once

#include <string>
#include <string_view>

namespace triton::program {

/// A path as it is used in every directory; an empty one stays empty.
std::string absolute(std::string const& path);

/// A reference with the path that it has made absolute. An image is found, and its tag resolved again, by the reference
/// that it was imported by, in whatever directory that happens.
std::string absolute_reference(std::string_view text);

}  // namespace triton::program
