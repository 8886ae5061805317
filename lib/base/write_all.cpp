#include "lib/base/write_all.h"

#include <cerrno>

#include <unistd.h>

namespace triton {

bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        ssize_t const size = ::write(fd, text.data(), text.size());
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return false;
        text.remove_prefix(static_cast<std::size_t>(size));
    }
    return true;
}

}  // namespace triton
