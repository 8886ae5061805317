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
    /// Owners 0 to count-1 in the archive become first to first+count-1 on disk. If the owner of the target directory
    /// is not in that range, it becomes `first`.
    role::IdRange ids = {};
};

/// Unpacks an archive by one triton-unpack into a directory, which may already have the layers below it. Both
/// descriptors are borrowed. `progress` is called at most ten times a second, by this thread.
/// After an error the directory has whatever was unpacked so far. Nothing is durable before syncfs(2).
/// Errors: `corrupt` for a broken archive or a wrong diffID; `refused` when a limit is reached, or "cancelled";
/// `exhausted` for a lack of room, since some stays free for others; `timeout` for an unpacker that hangs;
/// `unsupported` for a file system that cannot hold the content.
Result<role::Unpacked> unpack(JobSettings const& settings, UnpackRequest const& request, int archive, int directory,
                              std::function<void(role::Unpacking const&)> const& progress = {});

}  // namespace triton::content
