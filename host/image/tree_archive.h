#pragma once

#include <string>

#include "host/content/store.h"
#include "host/image/manifest.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// Brings a directory into the store as one tar archive (POSIX.1-2001, sorted, with owners by number, extended
/// attributes and holes): the same tree always has the same digest. It is hashed and written by triton-verify while it
/// is read. `directory` is borrowed. Errors: `refused` when a file changed while it was read, with tar's words.
Result<content::Blob> store_tree(Workshop& shop, content::LeaseId lease, int directory,
                                 content::BlobFacts const& facts);

/// Writes the content of a blob to a file, compressed by the usual program. Both are borrowed.
/// Errors: `not_found` when that program is not installed; `unavailable` for a full disk.
Result<> compress(int source, int target, Compression compression);

/// The command that decompresses, for a pipe; empty: none is needed.
std::string decompressor(Compression compression);

}  // namespace triton::image
