#include "lib/files/confined_directory.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "lib/files/confined_path.h"
#include "lib/json/text.h"

namespace triton::files {

namespace {

std::unexpected<Error> not_opened(int err, std::string const& path) {
    std::string const what = "open " + json::shown(path);
    // The system's texts for these two do not say what happened.
    if (err == EXDEV) return fail(ErrorKind::refused, what, "it leads outside the directory");
    if (err == EINVAL) return fail(ErrorKind::invalid, what, "it is not a regular file");
    if (err == ESTALE) return fail(ErrorKind::unavailable, what, "the directory has been removed");
    if (err == ELOOP) return fail(ErrorKind::refused, what, errno_text(err));  // about links that lead nowhere
    return fail(err, what);
}

}  // namespace

Result<ConfinedDirectory> ConfinedDirectory::open(std::string const& path) {
    UniqueFd directory{::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    int const err = errno;
    if (!directory) return fail(err, "open directory " + path);
    return ConfinedDirectory(std::move(directory));
}

Result<ConfinedDirectory> ConfinedDirectory::adopt(UniqueFd directory) {
    struct stat status;
    if (::fstat(directory.get(), &status) != 0) {
        int const err = errno;
        return fail(err, "use the directory that was handed over");
    }
    if (!S_ISDIR(status.st_mode))
        return fail(ErrorKind::invalid, "use the directory that was handed over", "it is not a directory");
    return ConfinedDirectory(std::move(directory));
}

Result<struct stat> ConfinedDirectory::look_at_file(std::string const& path) const {
    auto const found = open_beneath(directory_.get(), path, O_PATH);
    if (!found) return not_opened(found.error(), path);
    struct stat status;
    if (::fstat(found->get(), &status) != 0) return not_opened(errno, path);
    if (S_ISDIR(status.st_mode)) return not_opened(EISDIR, path);
    if (!S_ISREG(status.st_mode)) return not_opened(EINVAL, path);
    return status;
}

Result<ConfinedDirectory::File> ConfinedDirectory::open_file(std::string const& path) const {
    // Looks first, without opening: opening a device or a FIFO may make it act.
    if (auto const looked_at = look_at_file(path); !looked_at) return std::unexpected(looked_at.error());
    auto opened = open_beneath(directory_.get(), path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (!opened) return not_opened(opened.error(), path);
    File file{std::move(*opened), {}};
    if (::fstat(file.fd.get(), &file.status) != 0) return not_opened(errno, path);
    if (!S_ISREG(file.status.st_mode)) return not_opened(EINVAL, path);
    return file;
}

Result<bool> ConfinedDirectory::exists(std::string const& path) const {
    auto const found = open_beneath(directory_.get(), path, O_PATH);
    if (found) return true;
    if (found.error() == ENOENT || found.error() == ENOTDIR) return false;
    return not_opened(found.error(), path);
}

}  // namespace triton::files
