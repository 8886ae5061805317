#pragma once

#include "host/role/sandbox.h"
#include "host/role/unpack_messages.h"
#include "lib/base/result.h"

namespace triton::unpack {

/// Takes its one job from the channel, confines the process to the target directory, and unpacks. Before that it looks
/// at nothing of the blob. Returns the exit status: 0 when an answer was given, good or bad.
int run_job(role::Started& started);

/// Unpacks a blob into an open directory, in this process and without a sandbox. `progress`: called now and then; may
/// be empty. Errors: as of content::unpack(). Both descriptors are borrowed.
Result<role::Unpacked> unpack(int blob, int root, role::Unpack const& job,
                              void (*progress)(void* context, role::Unpacking const& state), void* context);

}  // namespace triton::unpack
