#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/process/capabilities.h"

namespace runtime::v1 {
class LinuxContainerSecurityContext;
}

namespace triton::cri {

struct ContainerCapabilities {
    process::CapabilitySet bounding = 0;  ///< permitted and effective, too
    process::CapabilitySet ambient = 0;   ///< inheritable, too; otherwise that is empty (CVE-2022-24769)

    bool operator==(ContainerCapabilities const&) const = default;
};

/// The capabilities of a container: those that runtimes give by default, or all of a privileged one, less and more
/// what is asked for. `own`: what this host has to give. Errors: `invalid`, with a name that is not one.
Result<ContainerCapabilities> find_capabilities(runtime::v1::LinuxContainerSecurityContext const& context,
                                                process::CapabilitySet own);

/// "CAP_CHOWN", ..
std::vector<std::string> capability_names(process::CapabilitySet set);

}  // namespace triton::cri
