#include "lib/files/confined_path.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace triton::files {

Result<UniqueFd> open_confined(std::string const& root_directory, std::string const& path, int flags) {
    if (root_directory.empty()) {
        UniqueFd fd{::open(path.c_str(), flags)};
        int const err = errno;
        if (!fd) return fail(err, "open " + path);
        return fd;
    }
    UniqueFd const root{::open(root_directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    int err = errno;
    if (!root) return fail(err, "open " + root_directory);
    open_how how{};
    how.flags = static_cast<unsigned>(flags);
    how.resolve = RESOLVE_IN_ROOT;
    UniqueFd fd{static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how))};
    err = errno;
    if (!fd) return fail(err, "open " + path + " inside " + root_directory);
    return fd;
}

}  // namespace triton::files
