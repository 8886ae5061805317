#include "lib/base/read_file.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"

namespace triton {

Result<std::string> read_open_file(int fd, std::string const& path, std::size_t limit) {
    struct stat status{};
    bool const has_size = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
    std::string text;
    // One byte more than the size: a file that is as long as it says is then read in two calls, the second of which
    // finds the end.
    std::size_t chunk = has_size ? static_cast<std::size_t>(status.st_size) + 1 : 65536;
    for (;;) {
        chunk = std::min(chunk, limit + 1 - text.size());
        std::size_t const before = text.size();
        text.resize(before + chunk);
        ssize_t const size = ::read(fd, text.data() + before, chunk);
        int const err = errno;
        text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
        if (size < 0 && err == EINTR) continue;
        if (size < 0) return fail(err, "read " + path);
        if (size == 0) return text;
        if (text.size() > limit)
            return fail(ErrorKind::invalid, "read " + path, "it has more than " + std::to_string(limit) + " bytes");
        chunk = has_size ? 4096 : 65536;  // only the end is left to find, if the file is as long as it said
    }
}

namespace {

Result<std::string> open_and_read(std::string const& path, int more_flags, std::size_t limit) {
    UniqueFd const opened{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | more_flags)};
    int const err = errno;
    if (!opened) return fail(err, "open " + path);
    return read_open_file(opened.get(), path, limit);
}

}  // namespace

Result<std::string> read_file(std::string const& path, std::size_t limit) {
    return open_and_read(path, O_NONBLOCK, limit);
}

Result<std::string> read_input_file(std::string const& path, std::size_t limit) {
    return open_and_read(path, 0, limit);
}

Result<std::string> read_standard_input(std::size_t limit) {
    return read_open_file(STDIN_FILENO, "standard input", limit);
}

}  // namespace triton
