#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/machine/machine.h"

namespace triton::machine {

/// The volumes that were taken with a snapshot of a machine; none: it is of the machine alone.
std::vector<std::string> volumes_of_snapshot(Machine const& machine, std::string_view name);

/// Records them; without volumes the record goes.
void set_volumes_of_snapshot(Machine& machine, std::string_view name, std::vector<std::string> const& volumes);

}  // namespace triton::machine
