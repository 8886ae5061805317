#pragma once

#include <string>

#include "host/machine/store.h"
#include "lib/base/result.h"
#include "lib/base/uuid.h"

namespace triton::program {

/// Waits, without a limit, until every volume of a machine is complete and its place in the pool is there, and links to
/// each of them for systemd-nspawn. What it waits for is the STATUS= of the unit, and in a file for vmadm and vminfod.
/// Errors: `refused` when another user excludes this machine; corrupt files.
Result<> attach_volumes(machine::Layout const& layout, Uuid const& uuid);

/// Removes the links of a machine that has ended, and releases the volumes that it was started with and does not have
/// any more.
Result<> detach_volumes(machine::Layout const& layout, Uuid const& uuid);

}  // namespace triton::program
