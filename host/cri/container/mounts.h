#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace runtime::v1 {
class ContainerConfig;
}

namespace triton::cri {

/// A mount of a container's specification.
struct SpecMount {
    std::string destination;
    std::string type;
    std::string source;
    std::vector<std::string> options;

    bool operator==(SpecMount const&) const = default;
};

/// What of the pod is mounted in each of its containers.
struct PodFiles {
    std::string resolver = {};  ///< resolv.conf; empty: the image's
    std::string hostname = {};
    std::string hosts = {};
    std::string memory = {};  ///< /dev/shm
    bool has_ipc = true;      ///< an IPC namespace of its own
};

struct ContainerMounts {
    std::vector<SpecMount> mounts;
    std::string propagation = "rprivate";  ///< of the root
};

/// The mounts of a container in the order in which they are made: those that all have, and those of the request, where
/// the one above comes before the one below. A source that does not exist is made as a directory.
/// Errors: `invalid` for a path that is not absolute, an image volume, a source that does not propagate.
Result<ContainerMounts> find_mounts(runtime::v1::ContainerConfig const& config, PodFiles const& files);

/// How the mount point that a path is on propagates, by the text of /proc/self/mountinfo.
struct Propagation {
    bool is_shared = false;
    bool is_slave = false;
};
Propagation propagation_of(std::string_view mountinfo, std::string const& path);

}  // namespace triton::cri
