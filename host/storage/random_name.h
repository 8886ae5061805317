#pragma once

#include <string>

namespace triton::storage {

/// 16 unique hexadecimal digits.
std::string random_name();

}  // namespace triton::storage
