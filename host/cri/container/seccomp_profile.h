#pragma once

#include <string>

#include "lib/base/result.h"
#include "lib/process/capabilities.h"

namespace runtime::v1 {
class LinuxContainerSecurityContext;
}

namespace triton::cri {

/// "linux.seccomp" of a container's specification as JSON; empty: none. `bounding`: its capabilities, each of which
/// opens calls of its own in the default profile. Errors: of a profile of this host that cannot be read or is not one.
Result<std::string> seccomp_of(runtime::v1::LinuxContainerSecurityContext const& context,
                               process::CapabilitySet bounding);

}  // namespace triton::cri
