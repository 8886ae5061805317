#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "host/content/verify_job.h"
#include "host/disk/disk.h"
#include "lib/base/result.h"

namespace triton::content {

// What triton-unpack has done by programs of the system. `target` is an empty or sparse file on the pool, open for
// writing and borrowed; after an error it has whatever was written so far. Nothing is durable before fsync(2).
// Errors of all: `unsupported`: "qemu-img is not installed"; `invalid` with what the program says; `exhausted` for a
// lack of room; `timeout`; `refused`: "cancelled".

/// Writes the disk of an image into a file, which already has its size and reads as zeros. `image` is borrowed; its
/// header was checked. `progress`: the bytes that the target has so far.
Result<> convert_disk(JobSettings const& settings, disk::Format format, int image, int target,
                      std::function<void(std::uint64_t bytes)> const& progress = {});

/// Makes the disk of an image larger, in place; twice is once. `image`: open for reading and writing, and borrowed; its
/// header was checked. Another program that has it open and locks it, as qemu does, is an error.
Result<> resize_disk(JobSettings const& settings, disk::Format format, int image, std::uint64_t bytes);

/// A seed image of cloud-init. The same input makes the same bytes.
struct SeedRequest {
    std::string meta_data;
    std::string user_data;  ///< a secret
    std::optional<std::string> network = {};
};
Result<> make_seed(JobSettings const& settings, SeedRequest const& request, int target);

}  // namespace triton::content
