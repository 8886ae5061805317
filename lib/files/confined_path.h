#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::files {

/// Opens a path as a process with that root directory (empty: ours) would: neither "..", nor a symbolic link leads out
/// of it. `flags`: as of open(2), with O_CLOEXEC.
/// Errors: those of openat2(2), "open <path>", with "inside <root directory>".
Result<UniqueFd> open_confined(std::string const& root_directory, std::string const& path, int flags);

/// Opens a path relative to a directory (borrowed), close-on-exec. Symbolic links are followed as long as they stay
/// inside, even if they are swapped meanwhile: openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS. Where that
/// call is missing, both functions walk along the path, one component at a time, with the same result. Errors: errno.
/// EXDEV when it leads outside; ESTALE when the directory itself has been removed.
std::expected<UniqueFd, int> open_beneath(int directory, std::string const& path, std::uint64_t flags);

}  // namespace triton::files
