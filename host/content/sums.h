#pragma once

#include "host/role/sums.h"

namespace triton::content {

using role::find_sum;

}  // namespace triton::content
