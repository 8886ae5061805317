#pragma once

#include <map>
#include <string>
#include <vector>

#include "host/cri/monitor/user_mapping.h"
#include "host/image/image_service.h"
#include "lib/base/result.h"

namespace runtime::v1 {
class ContainerConfig;
}

namespace triton::cri {

/// Volumes of a container that are not simply a path of the host.
struct ContainerVolumes {
    std::map<int, std::string> sources = {};  ///< of mounts of the request, by their number: where they are found
    std::map<int, std::string> images = {};   ///< ids of those that are mounted, by the same number
    std::vector<std::string> mapped = {};     ///< what the monitor mounts, as texts of its message; see mapped_volume()
};

/// Holds the images that are mounted, and makes places for the volumes of a pod with a user namespace, which the
/// runtime, as root of that, would not reach where they are. It blocks.
/// Errors: "ImageVolumeMountFailed: .." for an image, as kubelet knows it; `unsupported`: a mapping that is not the
/// pod's.
Result<ContainerVolumes> find_volumes(runtime::v1::ContainerConfig const& config, monitor::UserMapping const& users,
                                      image::Settings const& images, std::string const& container,
                                      std::string const& bundle);

}  // namespace triton::cri
