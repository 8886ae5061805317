#include "host/content/landed_in_file.h"

#include <algorithm>
#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

#include "host/content/journal.h"

namespace triton::content {

namespace {

constexpr std::uint64_t page = 4096;

/// The piece without its last page: nobody knows how much of that was written.
Interval without_last_page(Interval piece) { return {piece.begin, (piece.end - 1) / page * page}; }

}  // namespace

Intervals landed_in_file(int fd, Intervals const& noted) {
    struct stat status{};
    if (::fstat(fd, &status) != 0 || status.st_size == 0) return {};
    Intervals written;
    off_t at = 0;
    // A file system that is not ours decides how many pieces there are.
    for (std::size_t count = 0; count < 4 * most_journal_intervals; ++count) {
        off_t const begin = ::lseek(fd, at, SEEK_DATA);
        if (begin < 0 && errno == ENXIO) break;
        off_t const end = begin < 0 ? -1 : ::lseek(fd, begin, SEEK_HOLE);
        if (end <= begin) return noted;
        written.add({static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end)});
        at = end;
    }
    Intervals landed;
    for (Interval const& piece : written.list()) {
        landed.add(without_last_page(piece));
        for (Interval const& known : noted.list())
            landed.add({std::max(known.begin, piece.begin), std::min(known.end, piece.end)});
    }
    return landed;
}

}  // namespace triton::content
