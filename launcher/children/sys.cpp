#include "launcher/children/sys.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

namespace triton::launcher {

std::expected<pid_t, int> RealSys::find_dead() {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0) return std::unexpected(errno);
    return info.si_pid;
}

std::expected<Sys::Dead, int> RealSys::reap(pid_t which) {
    Dead dead;
    dead.pid = ::waitpid(which, &dead.status, WNOHANG);
    if (dead.pid < 0) return std::unexpected(errno);
    return dead;
}

int RealSys::signal(pid_t pid, int signo) { return ::kill(pid, signo) == 0 ? 0 : errno; }

pid_t RealSys::group_of(pid_t pid) { return ::getpgid(pid); }

pid_t RealSys::own_pid() { return ::getpid(); }

std::expected<std::size_t, int> RealSys::read_signals(int fd, std::span<signalfd_siginfo> infos) {
    ssize_t const size = ::read(fd, infos.data(), infos.size_bytes());
    if (size < 0) return std::unexpected(errno);
    return static_cast<std::size_t>(size) / sizeof(signalfd_siginfo);
}

Result<UniqueFd> RealSys::open_null_device() {
    UniqueFd fd{::open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)};
    if (!fd) return fail(errno, "open /dev/null");
    struct stat status;
    // A file of that name in an image would grow for ever.
    bool const is_it = ::fstat(fd.get(), &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
    if (!is_it) return fail(ErrorKind::unavailable, "open /dev/null", "it is not the null device");
    return fd;
}

int RealSys::execute(char const* path, char const* const* arguments, char const* const* environment) {
    (void)::execve(path, const_cast<char**>(arguments), const_cast<char**>(environment));
    return errno;
}

void RealSys::reboot() { (void)::reboot(RB_AUTOBOOT); }

}  // namespace triton::launcher
