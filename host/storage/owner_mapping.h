#pragma once

#include "lib/base/result.h"

namespace triton::storage {

/// Whether the file system of a directory (borrowed) has idmapped mounts, by trying one that nobody sees. Where the
/// kernel or a sandbox does not allow the try, it has none for us. Errors: those of fork(2) and /proc.
Result<bool> maps_owners(int directory);

}  // namespace triton::storage
