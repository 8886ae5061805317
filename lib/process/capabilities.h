#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>

#include "lib/json/problem.h"
#include "lib/json/where.h"
#include "lib/process/settings.h"

namespace triton::process {

/// A set of capabilities: bit n for number n, as the kernel has it.
using CapabilitySet = std::uint64_t;

/// "CAP_NET_ADMIN", "net_admin"; nullopt: there is no such name.
std::optional<CapabilitySet> parse_capability(std::string const& name);

/// "CAP_NET_ADMIN".
std::string capability_name(int number);

/// What a program's capabilities mean for its processes, given ours. Source: capabilities(7), "Transformation of
/// capabilities during execve()".
struct CapabilityMasks {
    CapabilitySet drop = 0;         ///< from the bounding set
    CapabilitySet inheritable = 0;  ///< as it is to be, the ambient ones included
    CapabilitySet ambient = 0;      ///< as it is to be

    bool operator==(CapabilityMasks const&) const = default;
};

/// The capabilities that a process has.
struct OwnCapabilities {
    CapabilitySet bounding = 0;
    CapabilitySet permitted = 0;
    CapabilitySet effective = 0;
    CapabilitySet inheritable = 0;
    CapabilitySet ambient = 0;

    static OwnCapabilities read();
};

/// Errors: all of them: "<at>.ambient[0]: unknown capability \"NET\"", "<at>.ambient[1]: CAP_SYS_TIME is not in
/// bounding",
/// "<at>.ambient[1]: the launcher itself does not have CAP_SYS_TIME". `own`: null when that does not count.
std::expected<CapabilityMasks, json::Problems> resolve_capabilities(CapabilitySettings const& wanted,
                                                                    json::Where const& at, OwnCapabilities const* own);

}  // namespace triton::process
