#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace triton::content {

/// The names in a directory of ours (borrowed), except for hidden ones. Errors: those of opendir(3), "read directory
/// <shown>".
Result<std::vector<std::string>> directory_names(int directory, std::string const& shown);

}  // namespace triton::content
