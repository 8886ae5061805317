#include "host/volume/work/trusted_file.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/read_file.h"
#include "lib/base/unique_fd.h"

namespace triton::volume {

namespace {

/// Errors: `invalid`: somebody else can change it.
Result<> check_owner(int file, std::string const& path) {
    struct stat status{};
    if (::fstat(file, &status) != 0) return fail(errno, "look at " + path);
    if (status.st_uid != 0 && status.st_uid != ::geteuid())
        return fail(ErrorKind::invalid, "trust " + path, "it belongs to user " + std::to_string(status.st_uid));
    bool const is_shared = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0 || is_shared) return {};
    char const* const who = (status.st_mode & S_IWOTH) != 0 ? "every user" : "its group";
    return fail(ErrorKind::invalid, "trust " + path,
                std::string(who) + " can change it; look at what is in it, and chmod go-w " + path);
}

}  // namespace

Result<std::string> read_trusted_file(std::string const& path, std::size_t most) {
    UniqueFd at{::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (!at) return fail(errno, "open /");
    std::string_view rest = path;
    std::string walked;
    for (;;) {
        rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
        std::size_t const slash = std::min(rest.find('/'), rest.size());
        std::string const name(rest.substr(0, slash));
        rest.remove_prefix(slash);
        bool const is_last = rest.empty();
        walked += "/" + name;
        int const how = is_last ? O_RDONLY | O_NONBLOCK | O_NOCTTY : O_PATH | O_DIRECTORY;
        UniqueFd next{::openat(at.get(), name.c_str(), how | O_NOFOLLOW | O_CLOEXEC)};
        bool const is_link = !next && (errno == ELOOP || errno == ENOTDIR);
        if (is_link) return fail(ErrorKind::invalid, "trust " + walked, "it is a symbolic link, or no directory");
        if (!next) return fail(errno, "open " + walked);
        TRY(check_owner(next.get(), walked));
        at = std::move(next);
        if (is_last) break;
    }
    struct stat status{};
    if (::fstat(at.get(), &status) != 0) return fail(errno, "look at " + path);
    if (!S_ISREG(status.st_mode)) return fail(ErrorKind::invalid, "trust " + path, "it is not a regular file");
    return read_open_file(at.get(), path, most);
}

}  // namespace triton::volume
