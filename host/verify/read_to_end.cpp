#include "host/verify/read_to_end.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

namespace triton::verify {

Result<std::string> read_to_end(int source, std::uint64_t maximum) {
    std::string text;
    std::array<char, 64 * 1024> piece{};
    for (;;) {
        ssize_t const got = ::read(source, piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(errno, "read what was handed over");
        if (got == 0) return text;
        if (text.size() + static_cast<std::size_t>(got) > maximum)
            return fail(ErrorKind::corrupt, "size is more than " + std::to_string(maximum) + " bytes");
        text.append(piece.data(), static_cast<std::size_t>(got));
    }
}

Result<std::uint64_t> size_of_file(int file) {
    struct stat status{};
    if (::fstat(file, &status) != 0) return fail(errno, "look at a file");
    return static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
}

}  // namespace triton::verify
