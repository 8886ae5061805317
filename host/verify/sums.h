#pragma once

#include <string_view>

#include "host/role/digest.h"
#include "lib/base/result.h"

namespace triton::verify {

/// The digest that a file of sums ("<64 digits>  name", "<64 digits> *name") gives to a name.
/// Errors: `not_found`: "sums do not name \"x\""; `corrupt` when they name it twice with different digests.
Result<role::Digest> find_sum(std::string_view sums, std::string_view name);

}  // namespace triton::verify
