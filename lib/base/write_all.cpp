#include "lib/base/write_all.h"

#include <cerrno>
#include <csignal>
#include <ctime>

#include <unistd.h>

namespace triton {

void take_signal_of(int write_error) {
    if (write_error != EPIPE && write_error != EFBIG) return;
    int const before = errno;
    sigset_t own;
    ::sigemptyset(&own);
    ::sigaddset(&own, write_error == EPIPE ? SIGPIPE : SIGXFSZ);
    timespec const at_once{};
    (void)::sigtimedwait(&own, nullptr, &at_once);  // finds nothing for a socket, which does not send one
    errno = before;
}

ssize_t write_quietly(int fd, std::string_view text) {
    ssize_t const result = ::write(fd, text.data(), text.size());
    if (result < 0) take_signal_of(errno);
    return result;
}

bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        ssize_t const size = write_quietly(fd, text);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return false;
        text.remove_prefix(static_cast<std::size_t>(size));
    }
    return true;
}

}  // namespace triton
