#pragma once

#include "host/machine/machines.h"
#include "lib/base/result.h"
#include "lib/base/uuid.h"

namespace triton::program {

/// Makes the directory that a machine sees as `machine::metadata_inside`, before it starts: the place of the socket,
/// the commands, and what cloud-init reads. Only root of the host, and root of the machine, can enter it. Machines that
/// are not ours are left alone. Errors: those of the files.
Result<> make_metadata_place(machine::Machines& machines, Uuid const& uuid);

/// Removes it, when the machine has ended.
Result<> remove_metadata_place(machine::Layout const& layout, Uuid const& uuid);

}  // namespace triton::program
