#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace runtime::v1 {
class ContainerConfig;
}

namespace triton::cri {

/// A device node of a container.
struct SpecDevice {
    std::string path;  ///< in the container
    char type = 'c';
    std::uint32_t major = 0;
    std::uint32_t minor = 0;
    std::uint32_t mode = 0;
    std::uint32_t user = 0;
    std::uint32_t group = 0;
    std::string permissions = "rwm";

    bool operator==(SpecDevice const&) const = default;
};

/// The devices that a request names; of a directory, all that are in it; of a privileged container, all of this host.
/// Errors: `invalid` for permissions that are none; `not_found`; a file that is no device.
Result<std::vector<SpecDevice>> find_devices(runtime::v1::ContainerConfig const& config);

}  // namespace triton::cri
