#pragma once

#include <string>

#include "host/image/image_service.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// Makes an image from a directory. Without an output directory it is installed here. Otherwise two files are written
/// there: "<name>-<version>.tar[.gz]" and "<name>-<version>.imgmanifest". Any imgadm can install them, and they make
/// that directory a source. In the end there are both files or none.
Result<Created> create_from_directory(Workshop& shop, std::string const& directory, CreateOptions const& options);

/// Makes an image likewise from the tree of a machine ("machines/<uuid>"), as it is at one moment.
Result<Created> create_from_machine(Workshop& shop, Uuid const& machine, CreateOptions const& options);

}  // namespace triton::image
