#pragma once

#include <string>

namespace triton {

/// What is put before absolute paths so that they lead below a directory: the directory without slashes at its end.
/// Nothing for "/", as the mount points that others know have one slash at their beginning.
inline std::string root_prefix(std::string directory) {
    directory.erase(directory.find_last_not_of('/') + 1);
    return directory;
}

}  // namespace triton
