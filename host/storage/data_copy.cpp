#include "host/storage/data_copy.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <vector>

#include <unistd.h>

namespace triton::storage {

namespace {

constexpr off_t block_unit = 512;  // of st_blocks
constexpr std::size_t buffer_size = 256 << 10;

bool has_holes(struct stat const& status) { return status.st_blocks < status.st_size / block_unit; }

/// Makes one read and its writes. Returns 0 at the end of the file.
Result<off_t> copy_by_buffer(int from, int to, off_t at, off_t size) {
    std::vector<char> buffer(std::min(buffer_size, static_cast<std::size_t>(size)));
    ssize_t const got = ::pread(from, buffer.data(), buffer.size(), at);
    if (got < 0) return fail(errno, "read");
    for (ssize_t done = 0; done < got;) {
        ssize_t const put = ::pwrite(to, buffer.data() + done, static_cast<std::size_t>(got - done), at + done);
        if (put < 0) return fail(errno, "write");
        done += put;
    }
    return got;
}

Result<off_t> copy_piece(int from, int to, Extent piece) {
    off_t in = piece.begin;
    off_t out = piece.begin;
    ssize_t const copied = ::copy_file_range(from, &in, to, &out, static_cast<std::size_t>(piece.end - piece.begin), 0);
    if (copied > 0) return copied;
    // Not possible between these files; a real error comes again at write.
    return copy_by_buffer(from, to, piece.begin, piece.end - piece.begin);
}

}  // namespace

Extent next_extent(int file, struct stat const& status, off_t at) {
    off_t const size = status.st_size;
    if (!has_holes(status)) return {at, size};
    off_t const begin = ::lseek(file, at, SEEK_DATA);
    if (begin < 0) return errno == ENXIO ? Extent{size, size} : Extent{at, size};
    off_t const end = ::lseek(file, begin, SEEK_HOLE);
    return {std::min(begin, size), end < 0 ? size : std::min(end, size)};
}

Result<std::uint64_t> copy_data(int from, struct stat const& status, int to) {
    std::uint64_t all = 0;
    off_t end_of_data = 0;
    for (off_t at = 0; at < status.st_size;) {
        Extent const extent = next_extent(from, status, at);
        for (at = extent.begin; at < extent.end;) {
            off_t const copied = TRY(copy_piece(from, to, {at, extent.end}));
            if (copied == 0) return all;  // the file has become shorter
            at += copied;
            all += static_cast<std::uint64_t>(copied);
            end_of_data = at;
        }
        at = std::max(at, extent.end);
    }
    if (end_of_data < status.st_size && ::ftruncate(to, status.st_size) != 0) return fail(errno, "make room");
    return all;
}

}  // namespace triton::storage
