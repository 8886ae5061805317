#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "host/image/reference.h"
#include "programs/imgadm/failure.h"

namespace triton::program {

/// A path of the command line as the catalog and imgadm.conf have it: other commands run in other directories.
std::string absolute(std::string const& path);

/// A source of the command line: a directory that is named relative to this one, or what it is.
std::string absolute_source(std::string const& source);

/// An image of the command line, a path in it made absolute. Errors: usage.
std::expected<image::Reference, Failure> named_reference(std::string_view text);

}  // namespace triton::program
