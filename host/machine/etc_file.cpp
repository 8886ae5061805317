#include "host/machine/etc_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/files/confined_path.h"
#include "lib/files/pending_file.h"

namespace triton::machine {

namespace {

constexpr mode_t mode = 0644;

/// Opens the machine's /etc. An image of one program may have none.
Result<UniqueFd> open_etc(std::string const& root, std::string const& what) {
    UniqueFd const top{::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (!top) return fail(errno, what);
    struct stat owner{};
    if (::fstat(top.get(), &owner) != 0) return fail(errno, what);
    if (::mkdirat(top.get(), "etc", 0755) == 0) {
        if (::fchownat(top.get(), "etc", owner.st_uid, owner.st_gid, AT_SYMLINK_NOFOLLOW) != 0)
            return fail(errno, what);
    } else if (errno != EEXIST) {
        return fail(errno, what);
    }
    auto etc = files::open_beneath(top.get(), "etc", O_RDONLY | O_DIRECTORY);
    if (!etc) return fail(etc.error(), what);
    return std::move(*etc);
}

/// Whether a regular file has this text already. Links, and devices that the machine has made, are not read.
bool says(int etc, std::string const& name, std::string_view text) {
    UniqueFd const file{::openat(etc, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
    struct stat found{};
    if (!file || ::fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) return false;
    if (found.st_size != static_cast<off_t>(text.size())) return false;
    std::string content(text.size(), '\0');
    return ::pread(file.get(), content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()) &&
           content == text;
}

}  // namespace

Result<> write_etc_file(std::string const& root, std::string const& name, std::string_view text) {
    std::string const what = "write " + root + "/etc/" + name;
    UniqueFd const etc = TRY(open_etc(root, what));
    if (says(etc.get(), name, text)) return {};
    struct stat owner{};
    if (::fstat(etc.get(), &owner) != 0) return fail(errno, what);
    auto file = TRY(files::PendingFile::create(etc.get(), name, root + "/etc/" + name, mode, true));
    if (!write_all(file.fd(), text) || ::fchown(file.fd(), owner.st_uid, owner.st_gid) != 0) return fail(errno, what);
    static constexpr timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    TRY(file.finish(mode, now));
    TRY(file.make_durable());
    return file.put_in_place();
}

}  // namespace triton::machine
