#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "host/content/intervals.h"
#include "lib/base/result.h"

namespace triton::content {

/// The data with which an interrupted download continues. At most most_journal_bytes, whatever the size of the blob.
struct Journal {
    std::string entity_tag = {};             ///< of the server's version; empty: it has none that is strong
    std::optional<std::uint64_t> size = {};  ///< of all of it
    Intervals landed = {};                   ///< what is in the file

    bool operator==(Journal const&) const = default;
};

inline constexpr std::size_t most_journal_intervals = 512;
inline constexpr std::size_t most_journal_bytes = 32 * 1024;

/// The journal of an ingest's directory (borrowed). None: there is none, or it makes no sense, which a power failure
/// can cause. It may promise bytes that a power failure has taken: the digest tells.
std::optional<Journal> read_journal(int directory);
/// Replaces it in one step; not durable by itself. Of more than most_journal_intervals the last are left out.
/// Errors: those of open(2), write(2) and rename(2).
Result<> write_journal(int directory, Journal const& journal);
/// Errors: those of unlink(2); that there is none is fine.
Result<> remove_journal(int directory);

}  // namespace triton::content
