#pragma once

#include <string>

namespace triton::storage {

/// 16 hexadecimal digits that nobody else has.
std::string random_name();

}  // namespace triton::storage
