#include "host/systemd/journal.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>

#include <systemd/sd-journal.h>

#include "lib/text/printable.h"

namespace triton::systemd {

namespace {

constexpr std::size_t most_lines = 3;
constexpr std::size_t longest_line = 300;
constexpr int most_waits = 10;
constexpr std::uint64_t quiet_time = 20'000;  // us

struct CloseJournal {
    void operator()(sd_journal* journal) const { sd_journal_close(journal); }
};

}  // namespace

std::vector<std::string> last_words(std::string const& unit, std::uint64_t since) {
    std::vector<std::string> lines;
    sd_journal* raw = nullptr;
    if (sd_journal_open(&raw, SD_JOURNAL_LOCAL_ONLY | SD_JOURNAL_SYSTEM) < 0) return lines;
    std::unique_ptr<sd_journal, CloseJournal> const journal(raw);
    if (sd_journal_add_match(raw, ("_SYSTEMD_UNIT=" + unit).c_str(), 0) < 0) return lines;
    // A process that has ended may have said more than journald has read by now.
    for (int waits = 0; waits < most_waits && sd_journal_wait(raw, quiet_time) > SD_JOURNAL_NOP; ++waits) {
    }
    if (sd_journal_seek_tail(raw) < 0) return lines;
    while (lines.size() < most_lines && sd_journal_previous(raw) > 0) {
        static constexpr std::string_view key = "MESSAGE=";
        std::uint64_t time = 0;
        void const* data = nullptr;
        std::size_t size = 0;
        if (sd_journal_get_realtime_usec(raw, &time) < 0 || time < since) break;
        if (sd_journal_get_data(raw, "MESSAGE", &data, &size) < 0 || size <= key.size()) continue;
        lines.push_back(
            text::printable(std::string_view(static_cast<char const*>(data), size).substr(key.size()), longest_line));
    }
    std::ranges::reverse(lines);
    return lines;
}

}  // namespace triton::systemd
