#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "host/content/store.h"
#include "host/content/verify_job.h"
#include "host/image/workshop.h"
#include "lib/base/result.h"

namespace triton::image {

/// Brings files of this host into the content store. Each is copied (by reflink where possible), and triton-verify
/// verifies the copy, so verified content cannot change.

/// Stores a file under a lease. Its digest is known, or empty: any. `source` is borrowed.
Result<content::Blob> store_file(Workshop& shop, content::LeaseId lease, int source, role::Expected const& expected,
                                 content::BlobFacts const& facts);

/// Stores a document and returns it as JSON, checked. `source` is used up.
Result<content::CheckedDocument> store_document(Workshop& shop, content::LeaseId lease, UniqueFd source,
                                                role::ReadDocument const& request, content::BlobFacts const& facts);

/// The size of a regular file. Errors: `invalid` for anything else, "<shown> is not a regular file".
Result<std::uint64_t> size_of(int file, std::string_view shown);

}  // namespace triton::image
