#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/result.h"

/// Subvolumes of btrfs, by its ioctls: btrfs-subvolume(8) and btrfs-quota(8) say what they do. All directories are
/// borrowed and open for reading.
namespace triton::storage::btrfs {

/// Whether a directory is on btrfs.
bool is_btrfs(int directory);
/// Whether it is the root of a subvolume.
bool is_subvolume(int directory);

/// Errors: those of the ioctl; EEXIST.
Result<> create(int parent, std::string const& name);
/// Durable when it returns.
Result<> snapshot(int subvolume, int parent, std::string const& name, bool is_read_only);
/// When it was made, in microseconds of the wall clock: its root directory has the time of the subvolume that it is a
/// snapshot of. None: the kernel does not tell.
std::optional<std::int64_t> made_at(int subvolume);
/// Removes a subvolume without subvolumes below it, with everything in it. Its space is freed gradually. Returns
/// whether it has gone; what is not a subvolume stays.
bool destroy(int parent, std::string const& name);
/// Takes the mark "read-only" off a subvolume; nothing happens to other directories.
void make_writable(int directory);

/// What its files may take and do take, as the file system's quota groups have it.
struct Group {
    std::uint64_t referenced = 0;
    std::uint64_t exclusive = 0;
    std::optional<std::uint64_t> limit = {};
};
/// None: the file system keeps no quota groups.
Result<std::optional<Group>> group(int subvolume);
/// Limits what a subvolume refers to. Turns the quota groups of the file system on when they are not, which makes later
/// changes of it slower. Errors: those of the ioctls.
Result<> limit(int subvolume, std::optional<std::uint64_t> bytes);

}  // namespace triton::storage::btrfs
