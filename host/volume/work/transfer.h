#pragma once

#include <optional>
#include <string>

#include "host/volume/objects.h"
#include "host/volume/work/workbench.h"

namespace triton::volume {

/// Writes a volume as a stream: its configuration, and its content as it is now or was in a snapshot, which may be used
/// meanwhile. `to` is borrowed. Errors: `busy`: another process sends it; those of storage::Pool and write(2).
Result<> send_volume(Place const& place, VolumeRow const& row, std::optional<VolumeConfig> const& config,
                     std::string const& snapshot, int to);

struct Reception {
    bool is_new = false;    ///< it gets a UUID of its own
    std::string name = {};  ///< its DisplayName; empty: that of the stream
};

/// Unpacks the volume of a stream beside the volumes. Returns the configuration whose publication makes a volume of it.
/// `from` is borrowed. Errors: `exists`: a volume of that key; `corrupt`; `unsupported`: of another kind of pool.
Result<VolumeConfig> receive_volume(Place const& place, Reception const& reception, int from);

}  // namespace triton::volume
