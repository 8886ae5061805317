#include "lib/base/far_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <linux/magic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lib/base/read_file.h"

namespace triton {

namespace {

// Kinds that linux/magic.h does not have. Source: statfs(2) and the headers of their file systems.
constexpr std::uint64_t gfs2 = 0x01161970;
constexpr std::uint64_t lustre = 0x0bd00bd0;
constexpr std::uint64_t beegfs = 0x19830326;
constexpr std::uint64_t gpfs = 0x47504653;
constexpr std::uint64_t orangefs = 0x20030528;
constexpr std::array<std::uint64_t, 16> served_by_others{NFS_SUPER_MAGIC,
                                                         FUSE_SUPER_MAGIC,
                                                         SMB_SUPER_MAGIC,
                                                         CIFS_SUPER_MAGIC,
                                                         SMB2_SUPER_MAGIC,
                                                         CEPH_SUPER_MAGIC,
                                                         V9FS_MAGIC,
                                                         AFS_SUPER_MAGIC,
                                                         AFS_FS_MAGIC,
                                                         CODA_SUPER_MAGIC,
                                                         OCFS2_SUPER_MAGIC,
                                                         gfs2,
                                                         lustre,
                                                         beegfs,
                                                         gpfs,
                                                         orangefs};
/// The same by their names in /proc/filesystems. One that begins a name with a dot behind it counts, too: fuse.sshfs.
constexpr std::array<std::string_view, 19> names_of_these{
    "nfs", "nfs4", "fuse",  "fuseblk", "virtiofs", "smbfs",  "cifs", "smb3",     "ceph", "9p",
    "afs", "coda", "ocfs2", "gfs2",    "lustre",   "beegfs", "gpfs", "orangefs", "pvfs2"};

bool is_far(std::uint64_t kind) { return std::ranges::find(served_by_others, kind) != served_by_others.end(); }

bool is_far(std::string_view name) {
    return std::ranges::find(names_of_these, name.substr(0, name.find('.'))) != names_of_these.end();
}

// Of Linux 6.8; older headers do not have them. Source: include/uapi/linux/mount.h, listmount(2), statmount(2).
constexpr long statmount_call = 457;
constexpr long listmount_call = 458;
constexpr std::uint64_t whole_tree = UINT64_MAX;  // LSMT_ROOT
constexpr std::uint64_t kind_of_file_system = 1;  // STATMOUNT_SB_BASIC
struct Request {                                  // mnt_id_req
    std::uint32_t size = sizeof(Request);
    std::uint32_t spare = 0;
    std::uint64_t mount = 0;
    std::uint64_t param = 0;
};
struct Mount {  // the beginning of statmount
    std::uint32_t size;
    std::uint32_t options;
    std::uint64_t mask;
    std::uint32_t device_major;
    std::uint32_t device_minor;
    std::uint64_t kind;
};
constexpr std::size_t most_mounts = 4096;  // that are looked at: some 2 ms

/// nullopt: the kernel does not say.
std::optional<bool> is_far_mount(std::uint64_t mount) {
    Request const request{.mount = mount, .param = kind_of_file_system};
    Mount found{};
    if (::syscall(statmount_call, &request, &found, sizeof found, 0) == 0) return is_far(found.kind);
    if (errno == ENOENT) return false;  // it has been unmounted
    return std::nullopt;
}

/// nullopt: the kernel does not say, or cannot be asked: a filter as systemd's kills who makes a call that is newer
/// than the filter.
std::optional<bool> ask_for_far_mount() {
    if (::prctl(PR_GET_SECCOMP) != 0) return std::nullopt;
    std::array<std::uint64_t, 128> mounts{};
    Request request{.mount = whole_tree};
    for (std::size_t seen = 0; seen < most_mounts;) {
        long const count = ::syscall(listmount_call, &request, mounts.data(), mounts.size(), 0);
        if (count < 0) return std::nullopt;
        for (std::uint64_t const mount : std::span(mounts).first(static_cast<std::size_t>(count))) {
            auto const far = is_far_mount(mount);
            if (!far || *far) return far;
        }
        if (static_cast<std::size_t>(count) < mounts.size()) return false;
        seen += mounts.size();
        request.param = mounts.back();
    }
    return true;  // who knows
}

}  // namespace

bool may_hang(int fd) {
    struct statfs status{};
    if (::fstatfs(fd, &status) != 0) return errno != ENOSYS && errno != EPERM;  // these are of our own filter
    return is_far(std::uint64_t{static_cast<unsigned int>(status.f_type)});
}

bool is_far_path(std::string const& path) {
    struct statfs status{};
    return ::statfs(path.c_str(), &status) == 0 && is_far(std::uint64_t{static_cast<unsigned int>(status.f_type)});
}

bool may_any_file_hang() {
    if (auto const has = ask_for_far_mount()) return *has;
    constexpr std::size_t most_bytes = std::size_t{1} << 20;
    auto const mountinfo = read_file("/proc/self/mountinfo", most_bytes);
    return !mountinfo || has_far_mount(*mountinfo);
}

bool has_far_mount(std::string_view mountinfo) {
    constexpr std::string_view end_of_options = " - ";
    for (std::size_t at = 0; at < mountinfo.size();) {
        std::size_t const end = std::min(mountinfo.find('\n', at), mountinfo.size());
        std::string_view const line = mountinfo.substr(at, end - at);
        std::size_t const options = line.find(end_of_options);
        if (options == line.npos) return true;
        std::string_view const rest = line.substr(options + end_of_options.size());
        if (is_far(rest.substr(0, rest.find(' ')))) return true;
        at = end + 1;
    }
    return false;
}

}  // namespace triton
