#pragma once

#include <string>

#include "host/content/store.h"
#include "host/image/manifest.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// Stores a directory as one tar archive (POSIX.1-2001, sorted, with owners by number, extended attributes and holes):
/// the same tree always has the same digest. While it is read, triton-verify hashes and writes it. `directory` is
/// borrowed. Errors: `refused` when a file has changed while it was read, with tar's words.
Result<content::Blob> store_tree(Workshop& shop, content::LeaseId lease, int directory,
                                 content::BlobFacts const& facts);

/// Writes the content of a blob to a file, compressed by the usual program. Both are borrowed.
/// Errors: `not_found` when that program is not installed; `exhausted` for a full disk; `refused`: "cancelled" once
/// `cancel` is readable.
Result<> compress(int source, int target, Compression compression, int cancel);

/// The command that decompresses from a pipe; empty: not needed.
std::string decompressor(Compression compression);

}  // namespace triton::image
