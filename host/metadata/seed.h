#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/machine/machine.h"

namespace triton::metadata {

struct SeedFile {
    std::string_view name;
    std::string text;
};

/// What cloud-init configures a machine by: the host name, and of customer_metadata the keys `root_authorized_keys`,
/// `user-script` (run at each boot) and `cloud-init:user-data` or `user-data`. The network is ours, so cloud-init is
/// told to leave it alone. Source: cloud-init's documentation of the data source NoCloud, 22.4.
std::vector<SeedFile> seed_of(machine::Machine const& machine);

}  // namespace triton::metadata
