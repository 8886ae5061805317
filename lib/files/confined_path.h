#pragma once

#include <string>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::files {

/// Opens a path as a process with that root directory (empty: ours) would: neither "..", nor a symbolic link leads out
/// of it. `flags`: as of open(2), with O_CLOEXEC.
/// Errors: those of openat2(2), "open <path>", with "inside <root directory>".
Result<UniqueFd> open_confined(std::string const& root_directory, std::string const& path, int flags);

}  // namespace triton::files
