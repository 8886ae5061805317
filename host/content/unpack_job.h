#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "host/content/verify_job.h"
#include "host/role/unpack_messages.h"
#include "lib/base/result.h"

namespace triton::content {

struct UnpackRequest {
    role::Compression compression = role::Compression::automatic;
    std::optional<role::Digest> diff_id = {};  ///< of the uncompressed archive; none: it is only computed
    role::UnpackLimits limits = {};
    bool applies_whiteouts = true;
    /// Owners in the archive are 0 to count-1; on disk they are first to first+count-1. The target directory gets the
    /// first as its owner if nobody in that range owns it.
    role::IdRange ids = {};
};

/// Unpacks an archive into a directory, which may have the layers below it already, by one triton-unpack. Both
/// descriptors are borrowed. `progress`: called at most ten times a second, from here.
/// After an error the directory has whatever was unpacked so far. Nothing is durable before syncfs(2).
/// Errors: `corrupt` for a broken archive or a wrong diffID; `refused` when a limit is reached, or "cancelled";
/// `unavailable` for a full disk; `unsupported` for a file system that cannot hold what is in it.
Result<role::Unpacked> unpack(JobSettings const& settings, UnpackRequest const& request, int archive, int directory,
                              std::function<void(role::Unpacking const&)> const& progress = {});

}  // namespace triton::content
