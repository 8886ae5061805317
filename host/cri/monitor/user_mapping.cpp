#include "host/cri/monitor/user_mapping.h"

#include <array>
#include <cerrno>
#include <charconv>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/mount_table.h"
#include "lib/base/read_file.h"
#include "lib/base/write_all.h"

namespace triton::cri::monitor {

namespace {

Result<> write_ids(std::string const& path, IdRange const& ids) {
    std::string const line = "0 " + std::to_string(ids.host) + " " + std::to_string(ids.count) + "\n";
    UniqueFd const file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    if (!file || !write_all(file.get(), line)) return fail(errno, "write " + path);
    return {};
}

/// The type of the file system that a path is on.
std::string file_system_of(std::string const& path) {
    auto const mounts = read_file("/proc/self/mountinfo", 64U << 20U);
    auto const mount = mounts ? mount_above(*mounts, path) : std::nullopt;
    return mount ? std::string(mount->type) : "unknown";
}

}  // namespace

std::string mapping_text(UserMapping const& mapping) {
    if (!mapping.is_set()) return {};
    return std::to_string(mapping.users.host) + ":" + std::to_string(mapping.users.count) + ":" +
           std::to_string(mapping.groups.host) + ":" + std::to_string(mapping.groups.count);
}

Result<UserMapping> parse_mapping(std::string const& text) {
    UserMapping mapping;
    if (text.empty()) return mapping;
    char const* next = text.data();
    char const* const end = text.data() + text.size();
    for (std::uint32_t* const number :
         {&mapping.users.host, &mapping.users.count, &mapping.groups.host, &mapping.groups.count}) {
        if (next != text.data() && (next == end || *next++ != ':')) return fail(text + " is not a mapping of ids");
        auto const [rest, error] = std::from_chars(next, end, *number);
        if (error != std::errc{}) return fail(text + " is not a mapping of ids");
        next = rest;
    }
    if (next != end || mapping.users.count == 0 || mapping.groups.count == 0)
        return fail(text + " is not a mapping of ids");
    return mapping;
}

Result<> write_mapping(int pid, UserMapping const& mapping) {
    std::string const process = "/proc/" + std::to_string(pid);
    TRY(write_ids(process + "/uid_map", mapping.users));
    return write_ids(process + "/gid_map", mapping.groups);
}

Result<> mount_mapped(std::string const& source, std::string const& target, int user_namespace) {
    UniqueFd const tree{static_cast<int>(
        ::syscall(SYS_open_tree, AT_FDCWD, source.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE))};
    if (!tree) return fail(errno, "mount " + source);
    mount_attr attributes{};
    attributes.attr_set = MOUNT_ATTR_IDMAP;
    attributes.userns_fd = static_cast<std::uint64_t>(user_namespace);
    if (user_namespace >= 0 && ::syscall(SYS_mount_setattr, tree.get(), "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes,
                                         sizeof attributes) != 0) {
        int const error = errno;
        std::string const what = "map the owners of " + source;
        if (error == EINVAL)
            return fail(ErrorKind::unsupported, what,
                        "its file system, or one below it, cannot do that (" + file_system_of(source) + ")");
        return fail(error, what);
    }
    if (::syscall(SYS_move_mount, tree.get(), "", AT_FDCWD, target.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0)
        return fail(errno, "mount " + source + " on " + target);
    return {};
}

}  // namespace triton::cri::monitor
