#include "host/verify/read_to_end.h"

#include <array>
#include <cerrno>

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

}  // namespace triton::verify
