#pragma once

#include <string_view>

#include "host/role/digest.h"
#include "lib/base/result.h"

namespace triton::role {

/// The digest of a name in a file of sums ("<64 digits>  name", "<64 digits> *name"), whatever ends its lines. The
/// library reads a signed file of sums by the same rules as the role that has checked the signature.
/// Errors: `not_found`: "sums do not name \"x\""; `corrupt` when they name it twice with different digests.
Result<Digest> find_sum(std::string_view sums, std::string_view name);

}  // namespace triton::role
