#include "host/storage/btrfs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

namespace triton::storage::btrfs {

namespace {

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

/// Arguments that contain a name. Names of the pool are far shorter than the limit; foreign ones have at most 255
/// bytes.
btrfs_ioctl_vol_args_v2 with_name(std::string const& name) {
    btrfs_ioctl_vol_args_v2 arguments{};
    name.copy(arguments.name, sizeof arguments.name - 1);
    return arguments;
}

/// The number of a subvolume, which is also that of its quota group.
Result<std::uint64_t> id_of_subvolume(int subvolume) {
    btrfs_ioctl_ino_lookup_args arguments{};
    arguments.objectid = BTRFS_FIRST_FREE_OBJECTID;
    if (::ioctl(subvolume, BTRFS_IOC_INO_LOOKUP, &arguments) != 0) return fail(errno, "look at the subvolume");
    return arguments.treeid;
}

/// Adds the content of one item of the quota tree. Both kinds begin with a field that we do not need.
void add_item(Group& group, btrfs_ioctl_search_header const& header, char const* item) {
    if (header.type == BTRFS_QGROUP_INFO_KEY && header.len >= sizeof(btrfs_qgroup_info_item)) {
        btrfs_qgroup_info_item info;
        std::memcpy(&info, item, sizeof info);
        group.referenced = le64toh(info.rfer);
        group.exclusive = le64toh(info.excl);
    }
    if (header.type == BTRFS_QGROUP_LIMIT_KEY && header.len >= sizeof(btrfs_qgroup_limit_item)) {
        btrfs_qgroup_limit_item item_limit;
        std::memcpy(&item_limit, item, sizeof item_limit);
        std::uint64_t const flags = le64toh(item_limit.flags);
        if ((flags & BTRFS_QGROUP_LIMIT_MAX_RFER) != 0) group.limit = le64toh(item_limit.max_rfer);
        if ((flags & BTRFS_QGROUP_LIMIT_MAX_EXCL) != 0)
            group.limit = std::min(group.limit.value_or(no_limit), std::uint64_t{le64toh(item_limit.max_excl)});
    }
}

int set_limit(int subvolume, std::uint64_t number, std::optional<std::uint64_t> bytes) {
    btrfs_ioctl_qgroup_limit_args arguments{};
    arguments.qgroupid = number;
    arguments.lim.flags = BTRFS_QGROUP_LIMIT_MAX_RFER | BTRFS_QGROUP_LIMIT_MAX_EXCL;
    arguments.lim.max_rfer = bytes.value_or(no_limit);
    arguments.lim.max_excl = no_limit;
    return ::ioctl(subvolume, BTRFS_IOC_QGROUP_LIMIT, &arguments) == 0 ? 0 : errno;
}

Result<> turn_groups_on(int subvolume) {
    btrfs_ioctl_quota_ctl_args arguments{};
    arguments.cmd = BTRFS_QUOTA_CTL_ENABLE;
    if (::ioctl(subvolume, BTRFS_IOC_QUOTA_CTL, &arguments) != 0)
        return fail(errno, "turn on the quota groups of btrfs");
    // Before all files are counted, a limit would be compared with too small a number.
    if (::ioctl(subvolume, BTRFS_IOC_QUOTA_RESCAN_WAIT) != 0) return fail(errno, "count what the subvolumes hold");
    return {};
}

}  // namespace

bool is_btrfs(int directory) {
    struct statfs facts;
    return ::fstatfs(directory, &facts) == 0 && facts.f_type == BTRFS_SUPER_MAGIC;
}

bool is_subvolume(int directory) {
    struct stat status;
    return ::fstat(directory, &status) == 0 && status.st_ino == BTRFS_FIRST_FREE_OBJECTID && is_btrfs(directory);
}

Result<> create(int parent, std::string const& name) {
    auto arguments = with_name(name);
    if (::ioctl(parent, BTRFS_IOC_SUBVOL_CREATE_V2, &arguments) != 0) return fail(errno, "create subvolume " + name);
    return {};
}

Result<> snapshot(int subvolume, int parent, std::string const& name, bool is_read_only) {
    auto arguments = with_name(name);
    arguments.fd = subvolume;
    arguments.flags = is_read_only ? BTRFS_SUBVOL_RDONLY : 0;
    if (::ioctl(parent, BTRFS_IOC_SNAP_CREATE_V2, &arguments) != 0)
        return fail(errno, "snapshot the subvolume as " + name);
    return {};
}

std::optional<std::int64_t> made_at(int subvolume) {
    btrfs_ioctl_get_subvol_info_args info{};
    // 1 also means success: no other subvolume comes after this one
    if (::ioctl(subvolume, BTRFS_IOC_GET_SUBVOL_INFO, &info) < 0 || info.otime.sec == 0) return std::nullopt;
    return static_cast<std::int64_t>(info.otime.sec) * 1'000'000 + info.otime.nsec / 1000;
}

bool destroy(int parent, std::string const& name) {
    auto arguments = with_name(name);
    return ::ioctl(parent, BTRFS_IOC_SNAP_DESTROY_V2, &arguments) == 0 || errno == ENOENT;
}

void make_writable(int directory) {
    if (!is_subvolume(directory)) return;
    __u64 flags = 0;
    if (::ioctl(directory, BTRFS_IOC_SUBVOL_GETFLAGS, &flags) != 0 || (flags & BTRFS_SUBVOL_RDONLY) == 0) return;
    flags &= ~static_cast<__u64>(BTRFS_SUBVOL_RDONLY);
    (void)::ioctl(directory, BTRFS_IOC_SUBVOL_SETFLAGS, &flags);  // what needed it fails and says so
}

Result<std::optional<Group>> group(int subvolume) {
    std::uint64_t const number = TRY(id_of_subvolume(subvolume));
    btrfs_ioctl_search_args arguments{};
    arguments.key.tree_id = BTRFS_QUOTA_TREE_OBJECTID;
    arguments.key.min_offset = arguments.key.max_offset = number;
    arguments.key.min_type = BTRFS_QGROUP_INFO_KEY;
    arguments.key.max_type = BTRFS_QGROUP_LIMIT_KEY;
    arguments.key.max_transid = std::numeric_limits<std::uint64_t>::max();
    arguments.key.nr_items = 64;
    // Items of other groups may be in the result, because types are sorted before offsets: the search goes by whole
    // keys.
    Group found;
    bool is_found = false;
    for (__u32 type : {BTRFS_QGROUP_INFO_KEY, BTRFS_QGROUP_LIMIT_KEY}) {
        arguments.key.min_type = arguments.key.max_type = type;
        arguments.key.nr_items = 1;
        if (::ioctl(subvolume, BTRFS_IOC_TREE_SEARCH, &arguments) != 0) {
            if (errno == ENOENT) return std::nullopt;  // no quota tree
            return fail(errno, "read the quota group of the subvolume");
        }
        if (arguments.key.nr_items == 0) continue;
        btrfs_ioctl_search_header header;
        std::memcpy(&header, arguments.buf, sizeof header);
        add_item(found, header, arguments.buf + sizeof header);
        is_found = true;
    }
    if (!is_found) return std::nullopt;
    return found;
}

Result<> limit(int subvolume, int outside, std::optional<std::uint64_t> bytes) {
    std::uint64_t const number = TRY(id_of_subvolume(subvolume));
    int err = set_limit(outside, number, bytes);
    if (err == ENOTCONN && !bytes) return {};  // no quota groups, no limits
    if (err == ENOTCONN) {
        TRY(turn_groups_on(outside));
        err = set_limit(outside, number, bytes);
    }
    if (err != 0) return fail(err, "limit what the subvolume may hold");
    return {};
}

}  // namespace triton::storage::btrfs
