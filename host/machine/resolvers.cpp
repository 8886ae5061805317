#include "host/machine/resolvers.h"

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

constexpr char name[] = "resolv.conf";
constexpr mode_t mode = 0644;

/// /etc of the machine. An image of one program may have none.
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

}  // namespace

Result<> write_resolv_conf(std::string const& root, std::string_view text) {
    std::string const what = "write " + root + "/etc/" + name;
    UniqueFd const etc = TRY(open_etc(root, what));
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
