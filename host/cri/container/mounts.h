#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace runtime::v1 {
class ContainerConfig;
class Mount;
}  // namespace runtime::v1

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
    /// Of mounts of the request, by their number: where they are found, if that is not their path on this host.
    std::map<int, std::string> sources = {};
};

struct ContainerMounts {
    std::vector<SpecMount> mounts;
    std::string propagation = "rprivate";  ///< of the root
};

/// The mounts of a container in the order in which they are made: those that all have, and those of the request, where
/// the one above comes before the one below. A source that does not exist is made as a directory.
/// Errors: `invalid` for a path that is not absolute, a source that does not propagate, a mount that is recursively
/// read-only and is not read-only.
Result<ContainerMounts> find_mounts(runtime::v1::ContainerConfig const& config, PodFiles const& files);

/// The path of a requested mount on this host, links followed. One that does not exist becomes a directory.
/// Errors: `invalid`: it is not absolute; those of realpath(3).
Result<std::string> host_source(runtime::v1::Mount const& mount);

/// How the mount point that a path is on propagates, by the text of /proc/self/mountinfo.
struct Propagation {
    bool is_shared = false;
    bool is_slave = false;
};
Propagation propagation_of(std::string_view mountinfo, std::string const& path);

}  // namespace triton::cri
