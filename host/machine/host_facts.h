#pragma once

#include <optional>
#include <string>

#include "host/machine/uuid.h"

namespace triton::machine {

/// What all machines of a host have in common.
struct HostFacts {
    std::optional<Uuid> server_uuid = {};                 ///< of the firmware; containers do not have one
    std::optional<std::string> platform_buildstamp = {};  ///< TRITON_RELEASE of os-release

    bool operator==(HostFacts const&) const = default;
};

/// Reads the facts below a root directory. What is missing or malformed is not set.
HostFacts read_host_facts(std::string const& root);

}  // namespace triton::machine
