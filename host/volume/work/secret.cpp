#include "host/volume/work/secret.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>

#include "lib/base/read_file.h"
#include "lib/base/unique_fd.h"

namespace triton::volume {

namespace {

constexpr std::size_t largest_secret = 1 << 20;

}  // namespace

Result<std::string> read_secret(std::string const& path) {
    UniqueFd const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0) return fail(errno, "read " + path);
    if (!S_ISREG(status.st_mode)) return fail("read " + path + ": it is not a regular file");
    if (status.st_uid != 0 || (status.st_mode & 077) != 0)
        return fail(ErrorKind::refused, "use " + path, "others than root can read it; chmod 600 " + path);
    return read_open_file(file.get(), path, largest_secret);
}

}  // namespace triton::volume
