#pragma once

#include "host/image/installation.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// Whether an open file (borrowed) begins like an uncompressed ZFS stream.
/// Source: OpenZFS include/sys/zfs_ioctl.h, DMU_BACKUP_MAGIC.
bool is_zfs_stream(int file);

/// Writes a snapshot of a tree to a file (borrowed): whole, or as the change since the tree that it was cloned from.
Result<> write_stream(Workshop& shop, storage::TreeName const& tree, storage::SnapshotName const& snapshot,
                      bool is_increment, Compression compression, int file);

/// Installs an image from a ZFS stream, on ZFS. The stream must have exactly one snapshot, and its file system in
/// root/. An increment is received as a clone of its origin, which must be installed.
Result<Imported> install_stream(Workshop& shop, content::Blob const& blob, Plan plan, ImportOptions const& options);

}  // namespace triton::image
