#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/result.h"

/// Subvolumes of btrfs, through its ioctls, which btrfs-subvolume(8) and btrfs-quota(8) explain. All directories are
/// borrowed and open for reading.
namespace triton::storage::btrfs {

/// Whether a directory is on btrfs.
bool is_btrfs(int directory);
/// Whether a directory is the root of a subvolume.
bool is_subvolume(int directory);

/// Makes a subvolume. Errors: those of the ioctl; EEXIST.
Result<> create(int parent, std::string const& name);
/// Makes a snapshot, which is durable at the return.
Result<> snapshot(int subvolume, int parent, std::string const& name, bool is_read_only);
/// When a subvolume was made, in microseconds of the wall clock: its root directory has the time of the subvolume that
/// it is a snapshot of. None: the kernel does not tell.
std::optional<std::int64_t> made_at(int subvolume);
/// Removes a subvolume that contains no others, with everything in it. Its space is freed gradually. Returns whether it
/// is gone; anything but a subvolume stays.
bool destroy(int parent, std::string const& name);
/// Clears the mark "read-only" of a subvolume; other directories are not changed.
void make_writable(int directory);

/// The limit and the use of a subvolume, from the file system's quota groups.
struct Group {
    std::uint64_t referenced = 0;
    std::uint64_t exclusive = 0;
    std::optional<std::uint64_t> limit = {};  ///< of both; the narrower one if both have one
};
/// None: the file system has no quota groups.
Result<std::optional<Group>> group(int subvolume);
/// Limits what a subvolume refers to, and removes a limit of what it does not share. Turns on the quota groups of the
/// file system if they are off, which makes later changes of it slower. `outside`: any directory of the same file
/// system in another subvolume. The kernel charges the change to the subvolume that it is asked through: asked through
/// one that holds more than its limit, it refuses to raise that limit (EDQUOT). Errors: those of the ioctls.
Result<> limit(int subvolume, int outside, std::optional<std::uint64_t> bytes);

}  // namespace triton::storage::btrfs
