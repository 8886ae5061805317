#pragma once

#include <string>
#include <string_view>

#include "lib/base/uuid.h"

namespace triton::machine {

/// Errors: `invalid`: `"web" is not a UUID`.
Result<Uuid> parse_uuid(std::string_view text);

/// Returns bytes that nobody can guess. Errors: those of getrandom(2).
Result<std::string> random_bytes(std::size_t count);

}  // namespace triton::machine
