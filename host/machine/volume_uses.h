#pragma once

#include <string>
#include <vector>

#include "host/machine/host.h"
#include "host/machine/machine.h"
#include "host/machine/store.h"

namespace triton::machine {

/// The volumes of a machine's `filesystems`, each once; writing counts more than reading.
std::vector<VolumeUse> volume_uses(Machine const& machine);

/// The directory with a link to each volume that a machine was started with, by the volume's key.
/// triton-machine-volumes makes it before systemd-nspawn starts, which binds what the links lead to, and removes it
/// afterwards.
std::string volume_links(Layout const& layout, Uuid const& machine);

/// What a machine was started with. A later update of its properties takes effect at its next start; until then it
/// also needs these. Errors: corrupt.
Result<std::vector<VolumeUse>> attached_volumes(Layout const& layout, Uuid const& machine);
Result<> save_attached_volumes(Layout const& layout, Uuid const& machine, std::vector<VolumeUse> const& uses);

/// The union of both.
std::vector<VolumeUse> merged(std::vector<VolumeUse> uses, std::vector<VolumeUse> const& more);

/// What a machine that is starting waits for, in words; empty: nothing.
std::string awaited_volume(Layout const& layout, Uuid const& machine);
Result<> save_awaited_volume(Layout const& layout, Uuid const& machine, std::string const& text);

/// Removes the directory of links. Succeeds also when it does not exist.
Result<> remove_volume_links(Layout const& layout, Uuid const& machine);

}  // namespace triton::machine
