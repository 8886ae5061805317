#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "host/content/intervals.h"
#include "lib/base/result.h"

namespace triton::content {

/// What an interrupted download needs to continue; at most most_journal_bytes, whatever the size of the blob.
struct Journal {
    std::string entity_tag = {};             ///< the server's, for its version; empty: it has no strong one
    std::optional<std::uint64_t> size = {};  ///< of the whole blob
    Intervals landed = {};                   ///< what the file has

    bool operator==(Journal const&) const = default;
};

inline constexpr std::size_t most_journal_intervals = 512;
inline constexpr std::size_t most_journal_bytes = 32 * 1024;

/// Reads the journal in an ingest's directory (borrowed). Returns nothing if there is none or it makes no sense, which
/// a power failure can cause. It may promise bytes that a power failure has taken: the digest will tell.
std::optional<Journal> read_journal(int directory);
/// Replaces the journal in one step; it is not made durable. Beyond most_journal_intervals the last intervals are left
/// out.
/// Errors: those of open(2), write(2) and rename(2).
Result<> write_journal(int directory, Journal const& journal);
/// Removes the journal; a missing one is not an error. Errors: those of unlink(2).
Result<> remove_journal(int directory);

}  // namespace triton::content
