#include "host/machine/resolvers.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/files/confined_path.h"

namespace triton::machine {

namespace {

constexpr char name[] = "resolv.conf";
constexpr char temporary[] = ".resolv.conf.triton";

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
    (void)::unlinkat(etc.get(), temporary, 0);  // what a killed command has left
    UniqueFd const file{::openat(etc.get(), temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644)};
    bool const is_written = file && write_all(file.get(), text) && ::fchmod(file.get(), 0644) == 0 &&
                            ::fchown(file.get(), owner.st_uid, owner.st_gid) == 0 && ::fsync(file.get()) == 0 &&
                            ::renameat(etc.get(), temporary, etc.get(), name) == 0;
    int const err = errno;
    if (is_written) return {};
    (void)::unlinkat(etc.get(), temporary, 0);
    return fail(err, what);
}

}  // namespace triton::machine
