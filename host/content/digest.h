#pragma once

#include "host/role/digest.h"

namespace triton::content {

/// The name of a blob: its SHA-256, checked.
using role::Digest;

}  // namespace triton::content
