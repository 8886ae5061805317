#pragma once

#include <string>

namespace triton::storage {

/// Returns 16 hexadecimal digits that are unique.
std::string random_name();

}  // namespace triton::storage
