#pragma once

#include <string>
#include <string_view>

#include "host/storage/names.h"
#include "host/volume/keys.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::volume {

// Snapshots that this program makes of a volume for a while. Nobody else can make one with such a name, and none of
// them is shown.
inline constexpr std::string_view own_snapshot_prefix = "triton-";
/// Of a volume that is being sent.
inline constexpr std::string_view send_snapshot = "triton-send";
inline constexpr std::string_view clone_snapshot_prefix = "triton-clone-";
/// One of its own for each clone: two at once do not meet.
Result<storage::SnapshotName> clone_snapshot(VolumeKey const& clone);

/// What the pool calls a snapshot that somebody has published.
Result<storage::SnapshotName> published_snapshot(SnapshotKey const& key);

/// Lets one process at a time send a volume, until the descriptor is closed. `links`: the directory of Place.
/// Errors: `busy`: another one sends it; those of open(2).
Result<UniqueFd> lock_for_sending(std::string const& links, VolumeKey const& key);
/// To be called while it is locked.
void forget_lock_for_sending(std::string const& links, VolumeKey const& key);

/// Creates and locks a file in the directory of the links. Errors: `busy` with that text; those of open(2).
Result<UniqueFd> lock_file(std::string const& links, std::string const& name, std::string const& busy);

}  // namespace triton::volume
