#pragma once

#include <string>

#include "lib/base/result.h"

namespace triton::volume {

/// Reads a file with a secret: credentials, or the user data of cloud-init. It must belong to root, and be readable by
/// nobody else. Errors: `refused`: "others than root can read it"; those of the read.
Result<std::string> read_secret(std::string const& path);

}  // namespace triton::volume
