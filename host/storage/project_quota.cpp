#include "host/storage/project_quota.h"

#include <cerrno>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/storage/walk_tree.h"

namespace triton::storage::project_quota {

namespace {

constexpr std::uint64_t block_size = 1 << QIF_DQBLKSIZE_BITS;  // of limits
constexpr int most_attempts = 16;

int quota_call(int directory, unsigned command, std::uint32_t project, if_dqblk& limits) {
    return ::syscall(SYS_quotactl_fd, directory, QCMD(command, PRJQUOTA), project, &limits) == 0 ? 0 : errno;
}

bool is_unsupported(int err) {
    return err == ENOSYS || err == ENOTSUP || err == ENOTTY || err == EINVAL || err == ENODEV || err == ENOTBLK;
}

std::unexpected<Error> unsupported() {
    return fail(
        ErrorKind::unsupported, "limit what the tree may hold",
        "the file system keeps no project quotas; XFS and ext4 do when they are mounted with the option prjquota");
}

/// An id for which no quota exists yet.
Result<std::uint32_t> new_project(int directory) {
    constexpr std::uint32_t first = 1U << 30U;  // far from those that administrators choose by hand
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
        std::uint32_t number = 0;
        if (::getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
        std::uint32_t const project = first + number % first;
        if_dqblk limits{};
        int const err = quota_call(directory, Q_GETQUOTA, project, limits);
        if (err == ENOENT) return project;  // XFS; ESRCH would mean that quotas are off
        if (err == 0 && limits.dqb_curinodes == 0 && limits.dqb_bhardlimit == 0) return project;
        if (err != 0 && (err == ESRCH || is_unsupported(err))) return unsupported();
        if (err != 0) return fail(err, "look for a free project id");
    }
    return fail(ErrorKind::exhausted, "look for a free project id", "there is none");
}

Result<> join_project(int file, std::uint32_t project, bool is_directory) {
    fsxattr attributes{};
    if (::ioctl(file, FS_IOC_FSGETXATTR, &attributes) != 0)
        return is_unsupported(errno) ? unsupported() : fail(errno, "read the project id");
    attributes.fsx_projid = project;
    if (is_directory) attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    if (::ioctl(file, FS_IOC_FSSETXATTR, &attributes) != 0)
        return is_unsupported(errno) ? unsupported() : fail(errno, "set the project id");
    return {};
}

/// Gives all files and directories of a tree their project id. Symbolic links and devices take no room worth counting.
/// The root is the last: its id says that the whole tree has one.
struct Joining {
    std::uint32_t project;

    Result<> enter(DirectoryStack const& stack, struct stat const& /*status*/) const {
        return stack.depth() == 0 ? Result<>() : join_project(stack.fd(), project, true);
    }
    Result<> entry(DirectoryStack const& stack, std::string const& name, struct stat const& status) const {
        if (!S_ISREG(status.st_mode)) return {};
        UniqueFd const file{
            ::openat(stack.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
        // The tree may be in use: the file is gone, or a link or a socket has taken its name.
        if (!file && (errno == ENOENT || errno == ELOOP || errno == ENXIO)) return {};
        struct stat opened;
        if (!file || ::fstat(file.get(), &opened) != 0) return fail(errno, "open " + stack.shown(name));
        return S_ISREG(opened.st_mode) ? join_project(file.get(), project, false) : Result<>();
    }
    static Result<> mounted(DirectoryStack const& /*stack*/, std::string const& /*name*/) { return {}; }
    Result<> leave(DirectoryStack const& stack) const {
        return stack.depth() == 0 ? join_project(stack.fd(), project, true) : Result<>();
    }
};

/// The project of a directory; 0: none.
std::uint32_t project_of(int directory) {
    fsxattr attributes{};
    return ::ioctl(directory, FS_IOC_FSGETXATTR, &attributes) == 0 ? attributes.fsx_projid : 0;
}

}  // namespace

Result<> set(int directory, std::optional<std::uint64_t> bytes) {
    std::uint32_t project = project_of(directory);
    if (project == 0 && !bytes) return {};
    if (project == 0) {
        project = TRY(new_project(directory));
        UniqueFd root{::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        if (!root) return fail(errno, "open the tree");
        Joining joining{project};
        TRY(walk_tree(std::move(root), joining));
    }
    if_dqblk limits{};
    limits.dqb_bhardlimit = (bytes.value_or(0) + block_size - 1) / block_size;  // 0: no limit
    limits.dqb_valid = QIF_BLIMITS;
    int const err = quota_call(directory, Q_SETQUOTA, project, limits);
    if (err != 0 && (err == ESRCH || is_unsupported(err))) return unsupported();
    if (err != 0) return fail(err, "limit what the tree may hold");
    return {};
}

Result<std::optional<std::uint64_t>> get(int directory) {
    std::uint32_t const project = project_of(directory);
    if_dqblk limits{};
    if (project == 0 || quota_call(directory, Q_GETQUOTA, project, limits) != 0) return std::nullopt;
    if (limits.dqb_bhardlimit == 0) return std::nullopt;
    return limits.dqb_bhardlimit * block_size;
}

bool are_kept(int directory) {
    if_dqblk limits{};
    int const err = quota_call(directory, Q_GETQUOTA, project_of(directory), limits);
    return err == 0 || err == ENOENT;  // XFS has no entry for a project without files and limits
}

}  // namespace triton::storage::project_quota
