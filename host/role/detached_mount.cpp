#include "host/role/detached_mount.h"

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/new_calls.h"

namespace triton::role {

namespace {

/// The error of errno. A filter that refuses these calls is told from a lack of rights by their names.
std::unexpected<Error> mount_failure(std::string const& what) {
    int const err = errno;
    return fail(err, is_missing_call(err) ? what + " by open_tree(2) and mount_setattr(2)" : what);
}

}  // namespace

int open_tree_call(int directory, char const* path, unsigned flags) {
    return static_cast<int>(::syscall(SYS_open_tree, directory, path, flags));
}

int restrict_mount(int mount, std::uint64_t attributes) {
    mount_attr attribute{};
    attribute.attr_set = attributes;
    return static_cast<int>(
        ::syscall(SYS_mount_setattr, mount, "", AT_EMPTY_PATH | AT_RECURSIVE, &attribute, sizeof attribute));
}

Result<UniqueFd> detached_mount(int directory, std::string_view shown) {
    UniqueFd mount(open_tree_call(directory, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH));
    if (!mount || restrict_mount(mount.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC) != 0)
        return mount_failure("detach " + std::string(shown));
    return mount;
}

Result<UniqueFd> open_read_only_mount(int file, int access, std::string_view shown) {
    UniqueFd const mount(open_tree_call(file, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH));
    if (!mount || restrict_mount(mount.get(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC) != 0)
        return mount_failure("lend " + std::string(shown));
    // open_tree(2) returns an O_PATH descriptor, which this path reopens
    std::string const path = "/proc/self/fd/" + std::to_string(mount.get());
    UniqueFd opened(::open(path.c_str(), access | O_NOCTTY | O_CLOEXEC));
    if (!opened) return fail(errno, "lend " + std::string(shown));
    return opened;
}

}  // namespace triton::role
