#pragma once

#include <string>
#include <string_view>

#include "host/role/verify_messages.h"
#include "lib/base/result.h"

namespace triton::verify {

/// A document that was read within limits, and is what it says.
struct Document {
    std::string media_type;  ///< its real type; empty if that has no name
    std::string json;        ///< the same content as strict JSON
};

/// No document may be larger, whatever the library allows.
inline constexpr std::uint64_t largest_document = 64 << 20;

/// Errors: `corrupt`: "document is not an image manifest", with details; also for a document that is two things at once
/// (CVE-2021-41190), or not what `request.media_type` says. `unsupported`: schema 1, foreign layers, other algorithms
/// than SHA-256.
Result<Document> read_document(std::string_view text, role::ReadDocument const& request);

}  // namespace triton::verify
