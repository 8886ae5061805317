#include "programs/vmadm/lend_file.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"

namespace triton::program {

namespace {

constexpr unsigned most_seconds = 10;

/// Runs in a child, hence makes only system calls. The child keeps the host's rights, which count in the machine's
/// mount namespace, whoever owns that. A path there cannot lead outside. Ends with errno.
[[noreturn]] void attach(int pidfd, int root, int tree, char const* inside) {
    // The path is in the machine, which may never answer.
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(most_seconds);
    bool const is_inside = ::setns(pidfd, CLONE_NEWNS) == 0 && ::fchdir(root) == 0 && ::chroot(".") == 0;
    if (!is_inside) ::_exit(errno);
    // A file of the host that has since been replaced has lost its name, and nothing can be mounted on it. So the place
    // is a new file here.
    int const place = ::open(inside, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0755);
    if (place < 0 && errno != EACCES && errno != EROFS) ::_exit(errno);
    long const moved = ::syscall(SYS_move_mount, tree, "", AT_FDCWD, inside, MOVE_MOUNT_F_EMPTY_PATH);
    ::_exit(moved == 0 ? 0 : errno);
}

}  // namespace

Result<> lend_file(std::string const& name, std::int64_t leader, std::string const& path, std::string const& inside,
                   std::function<bool()> const& is_current) {
    std::string const what = "lend " + path + " to VM " + name;
    UniqueFd const pidfd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(leader), 0)));
    if (!pidfd) return fail(errno, what);
    UniqueFd const root(
        ::open(("/proc/" + std::to_string(leader) + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root) return fail(errno, what);
    if (!is_current()) return fail(ErrorKind::not_found, what, "it has just ended");
    UniqueFd const tree(
        static_cast<int>(::syscall(SYS_open_tree, AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
    mount_attr attributes{};
    attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    attributes.propagation = MS_PRIVATE;
    if (!tree || ::syscall(SYS_mount_setattr, tree.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0)
        return fail(errno, what);
    pid_t const child = ::fork();
    if (child < 0) return fail(errno, what);
    if (child == 0) attach(pidfd.get(), root.get(), tree.get(), inside.c_str());
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return fail(errno, what);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    if (WIFEXITED(status)) return fail(WEXITSTATUS(status), what + " at " + inside);
    return fail(ErrorKind::internal, what, "it took longer than 10 seconds, or its child was killed");
}

}  // namespace triton::program
