#pragma once

#include <string_view>

#include "host/role/digest.h"
#include "lib/base/result.h"

namespace triton::verify {

/// The digest of a name in a file of sums ("<64 digits> name", "<64 digits> *name").
/// Errors: `not_found`: "sums do not name \"x\""; `corrupt` when they name it twice with different digests.
Result<role::Digest> find_sum(std::string_view sums, std::string_view name);

}  // namespace triton::verify
