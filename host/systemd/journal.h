#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace triton::systemd {

/// What the processes of a unit have written to the journal since a time (microseconds since the epoch), as lines that
/// are harmless on a terminal: the last three at most, 300 bytes of each. Waits a moment for what is on its way. Empty
/// when the journal cannot be read. Source: sd_journal_open(3), systemd.journal-fields(7).
std::vector<std::string> last_words(std::string const& unit, std::uint64_t since);

}  // namespace triton::systemd
