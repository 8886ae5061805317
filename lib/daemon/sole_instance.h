#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::daemon {

/// Makes us the only process of a program with this directory until the descriptor is closed. The directory is made if
/// it is missing. Errors: `exists` when another process has locked "<directory>/lock"; those of the file system.
Result<UniqueFd> be_the_only_one(std::string const& directory, std::string_view program);

}  // namespace triton::daemon
