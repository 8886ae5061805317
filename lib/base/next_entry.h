#pragma once

#include <cerrno>
#include <string>

#include <dirent.h>

#include "lib/base/result.h"

namespace triton {

/// The next entry of a directory; null at its end. To be used in place of readdir(3), which returns null for both, so
/// that a directory of which a part cannot be read looks like a shorter one.
/// Errors: those of readdir(3), "read directory <shown>".
inline Result<dirent const*> next_entry(DIR* directory, std::string const& shown) {
    errno = 0;
    dirent const* const entry = ::readdir(directory);
    if (!entry && errno != 0) return fail(errno, "read directory " + shown);
    return entry;
}

}  // namespace triton
