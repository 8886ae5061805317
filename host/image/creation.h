#pragma once

#include <string>

#include "host/image/image_service.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// Makes an image of a directory. Without an output directory it is installed here; with one, two files are written
/// there: "<name>-<version>.tar[.gz]" and "<name>-<version>.imgmanifest", which any imgadm installs, and which make
/// that directory a source. Either both files are there in the end, or none.
Result<Created> create_from_directory(Workshop& shop, std::string const& directory, CreateOptions const& options);

/// The same of the tree of a machine ("machines/<uuid>"), as it is at one moment.
Result<Created> create_from_machine(Workshop& shop, Uuid const& machine, CreateOptions const& options);

}  // namespace triton::image
