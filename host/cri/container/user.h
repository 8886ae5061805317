#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace runtime::v1 {
class LinuxContainerSecurityContext;
}

namespace triton::cri {

/// As whom the program of a container runs.
struct ContainerUser {
    std::uint32_t user = 0;
    std::uint32_t group = 0;
    std::vector<std::uint32_t> groups = {};  ///< sorted, each once
    std::string home = "/";

    bool operator==(ContainerUser const&) const = default;
};

/// Decides who that is. `image_user`: "user", "uid", "user:group" of the image's configuration. `root`: a directory
/// with the image's files, whose /etc/passwd and /etc/group say what names mean; no link in it leads out. Errors:
/// `invalid`, which names who is not there, a number that is none, or a file that is too long.
Result<ContainerUser> find_user(runtime::v1::LinuxContainerSecurityContext const& context,
                                std::string const& image_user, std::string const& root);

}  // namespace triton::cri
