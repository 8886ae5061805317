#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "host/disk/disk.h"
#include "host/role/failed_message.h"
#include "host/role/message.h"

namespace triton::role {

// Between the library and triton-unpack. One process does one job.

enum class Compression : std::uint8_t { automatic, none, gzip, zstd, xz, bzip2 };
inline constexpr std::array<std::string_view, 6> compression_names{"auto", "none", "gzip", "zstd", "xz", "bzip2"};

/// The limits of an archive.
struct UnpackLimits {
    std::uint64_t entries = 4'000'000;
    std::uint64_t bytes = std::uint64_t{256}
                          << 30;  ///< of the archive, uncompressed, and of all files, without their holes
    std::uint32_t depth = 1024;   ///< of directories
    std::uint32_t seconds = 6 * 3600;
    std::uint64_t least_free_bytes = 64 << 20;  ///< of the target's file system, which stay free for others
    std::uint64_t least_free_inodes = 64;
};

/// The job. Has 2 descriptors: the archive, open for reading on a read-only mount of its own; and the target directory,
/// as a detached mount (open_tree(2)), which the role makes its root and outside of which it sees nothing.
struct Unpack {
    static constexpr std::string_view name = "unpack";
    Compression compression = Compression::automatic;
    std::optional<Digest> diff_id = {};  ///< of the uncompressed archive, with every byte
    UnpackLimits limits = {};
    bool applies_whiteouts = true;  ///< false: a plain archive, whose names have no special meaning
};

// Three jobs are done by programs of the system, which the role executes in a sandbox that has this file, their input,
// and the programs and libraries of the system. The target is a detached mount of a file that exists.

/// Job: write the disk of an image into a file, by qemu-img. Has 2 descriptors: the image, as a read-only detached
/// mount of that file alone; and the target, which is as large as it is to be, and full of holes.
struct ConvertDisk {
    static constexpr std::string_view name = "convert";
    disk::Format format = disk::Format::qcow2;
    std::uint64_t bytes = 0;  ///< of the target
    std::uint32_t seconds = 6 * 3600;
};
/// Job: make the disk of an image larger, by qemu-img. Has 1 descriptor: the image.
struct ResizeDisk {
    static constexpr std::string_view name = "resize";
    disk::Format format = disk::Format::qcow2;
    std::uint64_t bytes = 0;  ///< of the disk
};
/// Job: make a seed image for cloud-init (NoCloud), by xorriso. Has 2 descriptors or 3: the target, which is empty; the
/// user data, and the network's configuration if there is one, each a file in memory.
struct MakeSeed {
    static constexpr std::string_view name = "seed";
    std::string meta_data;
};
inline constexpr std::uint64_t largest_seed = 64 << 20;
inline constexpr std::uint64_t largest_seed_file = 1 << 20;
/// The last answer of all three. Nothing is certainly on disk before the caller's fsync(2).
struct Produced {
    static constexpr std::string_view name = "produced";
    std::uint64_t bytes = 0;  ///< of the target
};

/// Progress, ten times a second as long as it makes any: a role that is silent for long hangs.
struct Unpacking {
    static constexpr std::string_view name = "unpacking";
    std::uint64_t read = 0;  ///< bytes of the blob so far
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;  ///< of the archive, uncompressed
};
/// The last answer. Nothing is certainly on disk before the caller's syncfs(2).
struct Unpacked {
    static constexpr std::string_view name = "unpacked";
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;  ///< of the archive, uncompressed
    Digest diff_id;
    std::uint64_t skipped_devices = 0;
    std::uint64_t skipped_attributes = 0;  ///< trusted.*, and those that the file system does not have
    bool has_whiteout_names = false;       ///< a plain archive that would be another tree as a layer
};

std::span<Row<Unpack> const> table(json::TableOf<Unpack>);
std::span<Row<Unpacking> const> table(json::TableOf<Unpacking>);
std::span<Row<Unpacked> const> table(json::TableOf<Unpacked>);
std::span<Row<ConvertDisk> const> table(json::TableOf<ConvertDisk>);
std::span<Row<ResizeDisk> const> table(json::TableOf<ResizeDisk>);
std::span<Row<MakeSeed> const> table(json::TableOf<MakeSeed>);
std::span<Row<Produced> const> table(json::TableOf<Produced>);

}  // namespace triton::role
