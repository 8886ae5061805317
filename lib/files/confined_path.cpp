#include "lib/files/confined_path.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace triton::files {

namespace {

constexpr int most_attempts = 16;

/// Whether the directory has been removed: then it stays empty, whatever takes its name.
bool is_removed(int directory) {
    struct stat status;
    return ::fstat(directory, &status) == 0 && status.st_nlink == 0;
}

}  // namespace

std::expected<UniqueFd, int> open_beneath(int directory, std::string const& path, std::uint64_t flags) {
    open_how how{};
    how.flags = flags | O_CLOEXEC;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    for (int attempt = 1;; ++attempt) {
        UniqueFd fd{static_cast<int>(::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how))};
        int const err = errno;
        if (fd) return fd;
        if (err == ENOENT && is_removed(directory)) return std::unexpected(ESTALE);
        // EAGAIN: something was renamed while ".." was resolved, and the kernel could not be sure.
        if (err != EINTR && (err != EAGAIN || attempt == most_attempts)) return std::unexpected(err);
    }
}

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
    for (int attempt = 1;; ++attempt) {
        UniqueFd fd{static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how))};
        err = errno;
        if (fd) return fd;
        // As above.
        if (err != EINTR && (err != EAGAIN || attempt == most_attempts))
            return fail(err, "open " + path + " inside " + root_directory);
    }
}

}  // namespace triton::files
