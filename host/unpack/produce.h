#pragma once

#include <vector>

#include "host/role/sandbox.h"
#include "host/role/unpack_messages.h"
#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::unpack {

// Jobs that a program of the system does. It runs in a sandbox of its own, and this process confines itself before it
// reads what the program has printed. `descriptors`: as the messages say.

/// Errors: `unsupported`: "qemu-img is not installed"; `invalid` with what qemu-img says; `exhausted` for a full disk;
/// `timeout`.
Result<role::Produced> convert_disk(role::Started& started, role::ConvertDisk const& job,
                                    std::vector<UniqueFd> descriptors);

/// Errors: as above.
Result<role::Produced> resize_disk(role::Started& started, role::ResizeDisk const& job,
                                   std::vector<UniqueFd> descriptors);

/// Errors: as above, of xorriso.
Result<role::Produced> make_seed(role::Started& started, role::MakeSeed const& job, std::vector<UniqueFd> descriptors);

}  // namespace triton::unpack
