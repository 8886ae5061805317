#pragma once

#include "host/role/digest.h"

namespace triton::content {

/// What a blob is named by: SHA-256, checked.
using role::Digest;

}  // namespace triton::content
