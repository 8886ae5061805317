#include "launcher/children/sys.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <string>
#include <string_view>

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

namespace {

constexpr std::size_t most_children_text = 128 * 1024;  // about 16,000 of them

/// The number behind the name of a row, as in "Max realtime timeout      12345     12345     us".
std::uint64_t number_of_row(std::string_view text, std::string_view name) {
    std::size_t const at = text.find(name);
    if (at == text.npos) return 0;
    std::string_view const row = text.substr(at + name.size());
    std::size_t const begin = row.find_first_not_of(' ');
    std::uint64_t number = 0;
    if (begin != row.npos) (void)std::from_chars(row.data() + begin, row.data() + row.size(), number);
    return number;
}

}  // namespace

void RealSys::list_children(std::vector<pid_t>& children) {
    children.clear();
    // One thread: it is the parent of all. Source: proc(5), /proc/pid/task/tid/children.
    UniqueFd const file{::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC)};
    std::string text(most_children_text, '\0');
    std::size_t used = 0;
    ssize_t size = 0;
    while (file && used < text.size() && (size = ::read(file.get(), text.data() + used, text.size() - used)) > 0)
        used += static_cast<std::size_t>(size);
    char const* at = text.data();
    char const* const end = at + used;
    while (at < end) {
        pid_t pid = 0;
        auto const [next, error] = std::from_chars(at, end, pid);
        if (error != std::errc{} || next == end) return;  // what was cut off is not a pid
        children.push_back(pid);
        at = next + 1;
    }
}

std::uint64_t RealSys::mark_of(pid_t pid) {
    UniqueFd const file{::open(("/proc/" + std::to_string(pid) + "/limits").c_str(), O_RDONLY | O_CLOEXEC)};
    char text[4096];
    ssize_t const size = file ? ::read(file.get(), text, sizeof text) : -1;
    if (size <= 0) return 0;
    std::uint64_t const number = number_of_row({text, static_cast<std::size_t>(size)}, "Max realtime timeout");
    return number >= process::lowest_mark && number <= process::highest_mark ? number : 0;
}

void RealSys::wait_a_moment() {
    timespec const moment{0, 1'000'000};
    (void)::nanosleep(&moment, nullptr);
}

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
