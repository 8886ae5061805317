#pragma once

#include <string>
#include <string_view>

#include "host/storage/pool.h"
#include "lib/base/result.h"

namespace triton::storage {

/// Errors: `invalid`, with what is wrong with the key or the value. An empty value is allowed.
Result<> check_property(std::string_view key, std::string_view value);

/// Writes sorted lines "key value", as a DirectoryPool keeps them.
std::string print_properties(Properties const& properties);
/// Errors: `corrupt`.
Result<Properties> parse_properties(std::string_view text);

}  // namespace triton::storage
