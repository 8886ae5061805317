#include "launcher/children/sys.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/children/process_setup.h"

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

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool is_sanitized = true;  // the shadow memory of the sanitizers takes terabytes of addresses
#else
constexpr bool is_sanitized = false;
#endif

/// Bytes of our address space, by /proc/self/statm; 0: unknown.
unsigned long address_space() {
    UniqueFd const file{::open("/proc/self/statm", O_RDONLY | O_CLOEXEC)};
    std::array<char, 64> text{};
    ssize_t const size = file ? ::read(file.get(), text.data(), text.size()) : 0;
    unsigned long pages = 0;
    if (size > 0) (void)std::from_chars(text.data(), text.data() + size, pages);
    return pages * static_cast<unsigned long>(::sysconf(_SC_PAGESIZE));
}

void set_soft_limit(int resource, unsigned long value) {
    rlimit limit{};
    auto const which = static_cast<__rlimit_resource>(resource);
    if (::getrlimit(which, &limit) != 0) return;
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, value);
    (void)::setrlimit(which, &limit);
}

void set_copy_limits() {
    set_soft_limit(RLIMIT_CORE, 0);
    set_soft_limit(RLIMIT_CPU, CopyLimits::processor_seconds);
    set_soft_limit(RLIMIT_FSIZE, CopyLimits::file);
    if (is_sanitized) return;
    if (unsigned long const ours = address_space(); ours != 0) set_soft_limit(RLIMIT_AS, ours + CopyLimits::memory);
}

/// Resets all signals: a handler of ours would speak for us, and a blocked or ignored signal would not end the copy.
void reset_signals() {
    for (int signo = 1; signo < NSIG; ++signo)
        (void)::signal(signo, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Whoever reads our output to its end does not wait for a copy that outlives us.
void let_standard_descriptors_go(int kept) {
    int const null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int const fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (fd != kept) (void)(null >= 0 ? ::dup2(null, fd) : ::close(fd));
    if (null > STDERR_FILENO) (void)::close(null);
}

void block_signals() {
    sigset_t all;
    ::sigfillset(&all);
    (void)::sigprocmask(SIG_SETMASK, &all, nullptr);
}

/// Ends when we do, and soon.
void be_helper(pid_t parent) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    reset_signals();
    set_copy_limits();
}

[[noreturn]] void run(std::function<void()> const& work) noexcept {
    try {
        work();
        ::_exit(0);
    } catch (...) {
        ::_exit(1);
    }
}

/// Returns twice: 0 in the copy.
std::expected<pid_t, int> fork_with(int kept) {
    pid_t const pid = ::fork();
    if (pid < 0) return std::unexpected(errno);
    (void)::setpgid(pid, pid);  // in both, before anybody kills its group
    if (pid == 0) close_all_descriptors_but(kept);
    return pid;
}

}  // namespace

std::expected<pid_t, int> RealSys::start_copy(int kept, std::function<void()> const& work) {
    pid_t const parent = ::getpid();
    auto const pid = fork_with(kept);
    if (pid != 0) return pid;
    be_helper(parent);
    run(work);
}

std::expected<pid_t, int> RealSys::start_companion(int kept, std::function<void()> const& work) {
    auto const pid = fork_with(kept);
    if (pid != 0) return pid;
    let_standard_descriptors_go(kept);
    block_signals();
    run(work);
}

int RealSys::signal(pid_t pid, int signo) { return ::kill(pid, signo) == 0 ? 0 : errno; }

pid_t RealSys::group_of(pid_t pid) { return ::getpgid(pid); }

pid_t RealSys::foreground_group() { return ::tcgetpgrp(STDIN_FILENO); }

// SIGTTOU is blocked.
void RealSys::set_foreground_group(pid_t group) { (void)::tcsetpgrp(STDIN_FILENO, group); }

int RealSys::take_stop(pid_t pid) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOHANG) != 0) return 0;
    return info.si_pid == pid ? info.si_status : 0;
}

pid_t RealSys::own_pid() { return ::getpid(); }

namespace {

constexpr std::size_t most_children = 131'072;  // that are listed, or other processes: some 15 ms

/// The hard limit of a row, as in "Max realtime timeout      12345     12345     us"; without a number there (it is
/// "unlimited"): `otherwise`.
std::uint64_t number_of_row(std::string_view text, std::string_view name, std::uint64_t otherwise) {
    std::size_t at = text.find(name);
    if (at == text.npos) return otherwise;
    text.remove_prefix(at + name.size());
    for (int column = 0; column < 2; ++column) {
        text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
        at = std::min(text.find(' '), text.size());
        if (column == 0) text.remove_prefix(at);
    }
    std::uint64_t number = otherwise;
    (void)std::from_chars(text.data(), text.data() + at, number);
    return number;
}

}  // namespace

void RealSys::list_children(std::vector<pid_t>& children) {
    children.clear();
    // We have one thread, which is the parent of all. Source: proc(5), /proc/pid/task/tid/children.
    UniqueFd const file{::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC)};
    std::array<char, 8192> text;
    std::size_t rest = 0;  // of a number that the piece before has begun
    ssize_t size = 0;
    while (file && children.size() < most_children &&
           (size = ::read(file.get(), text.data() + rest, text.size() - rest)) > 0) {
        char const* at = text.data();
        char const* const end = at + rest + size;
        for (pid_t pid = 0; at < end; ++at) {
            auto const [next, error] = std::from_chars(at, end, pid);
            if (error != std::errc{} || next == end) break;  // each number has a blank behind it
            children.push_back(pid);
            at = next;
        }
        rest = static_cast<std::size_t>(std::copy(at, end, text.data()) - text.data());
        if (rest > 16) return;  // that is no number
    }
}

namespace {

UniqueFd open_process(pid_t pid, char const* file, int flags = O_RDONLY | O_CLOEXEC) {
    return UniqueFd{::open(("/proc/" + std::to_string(pid) + "/" + file).c_str(), flags)};
}

Marks marks_in(std::uint64_t falling, std::uint64_t locks, process::MarkLimits const& limits) {
    return {.falling = falling >= process::lowest_mark && falling <= process::highest_mark ? falling : 0,
            .rising = limits.mark_of_locks(locks),
            .is_rising_set = limits.is_set(locks)};
}

Marks read_marks(int file, process::MarkLimits const& limits) {
    char text[4096];
    ssize_t const size = file >= 0 ? ::read(file, text, sizeof text) : -1;
    if (size <= 0) return {};
    std::string_view const all{text, static_cast<std::size_t>(size)};
    return marks_in(number_of_row(all, "Max realtime timeout", 0), number_of_row(all, "Max file locks", RLIM_INFINITY),
                    limits);
}

/// What /proc/pid/status says. A name cannot fake a line: newlines in it are escaped. Source: proc(5).
class ProcessStatusText {
public:
    explicit ProcessStatusText(int file) {
        ssize_t const size = file >= 0 ? ::read(file, text_, sizeof text_) : -1;
        if (size > 0) all_ = {text_, static_cast<std::size_t>(size)};
    }
    [[nodiscard]] bool lives() const {
        std::string_view const state = value_of("\nState:\t");
        return !state.empty() && state.front() != 'Z' && state.front() != 'X' && state.front() != 'x';
    }
    [[nodiscard]] pid_t number_of(std::string_view name) const {
        std::string_view const value = value_of(name);
        pid_t number = 0;
        (void)std::from_chars(value.data(), value.data() + value.size(), number);
        return number;
    }
    [[nodiscard]] std::string_view value_of(std::string_view name) const {
        std::size_t const at = all_.find(name);
        return at == all_.npos ? std::string_view() : all_.substr(at + name.size());
    }

private:
    char text_[2048];
    std::string_view all_;
};

}  // namespace

/// The file says the same of all processes, and takes ten times as long; the call is for those of our own user, unless
/// we have CAP_SYS_RESOURCE. Source: prlimit(2).
Marks RealSys::marks_of(pid_t pid) {
    rlimit falling{};
    rlimit locks{};
    if (pid > 0 && ::prlimit(pid, RLIMIT_RTTIME, nullptr, &falling) == 0 &&
        ::prlimit(pid, RLIMIT_LOCKS, nullptr, &locks) == 0)
        return marks_in(falling.rlim_max, locks.rlim_max, spawner_.mark_limits());
    return read_marks(open_process(pid, "limits").get(), spawner_.mark_limits());
}

pid_t RealSys::parent_of(pid_t pid) {
    ProcessStatusText const status(open_process(pid, "status").get());
    return status.lives() && status.number_of("\nTgid:\t") == pid ? status.number_of("\nPPid:\t") : 0;
}

std::optional<uid_t> RealSys::user_of(pid_t pid) {
    ProcessStatusText const status(open_process(pid, "status").get());
    std::string_view text = status.value_of("\nUid:\t");  // real, effective, saved, and that for files
    std::optional<uid_t> user;
    for (int which = 0; which < 4; ++which) {
        uid_t one = 0;
        auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), one);
        if (error != std::errc{} || (user && *user != one)) return std::nullopt;
        user = one;
        text.remove_prefix(std::min(static_cast<std::size_t>(end - text.data()) + 1, text.size()));
    }
    return user;
}

/// A directory of /proc names the same process for ever, as a pidfd does, and pidfd_send_signal(2) takes it. Where the
/// call is missing or refused, only children are signalled by their pid: until they are reaped nobody else gets it.
std::expected<bool, int> RealSys::signal_marked(pid_t pid, std::span<std::uint64_t const> marks, int signo) {
    UniqueFd const process = open_process(pid, "", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!process) return false;
    UniqueFd const limits{::openat(process.get(), "limits", O_RDONLY | O_CLOEXEC)};
    Marks const its = read_marks(limits.get(), spawner_.mark_limits());
    if (std::ranges::none_of(marks, [its](std::uint64_t mark) { return its.have(mark); })) return false;
    UniqueFd const file{::openat(process.get(), "status", O_RDONLY | O_CLOEXEC)};
    ProcessStatusText const status(file.get());
    if (!status.lives()) return false;
    if (::syscall(SYS_pidfd_send_signal, process.get(), signo, nullptr, 0) == 0) return true;
    int error = errno;
    if (error == ESRCH) return false;
    if (status.number_of("\nPPid:\t") == ::getpid()) error = signal(pid, signo);
    if (error == 0 || error == ESRCH) return error == 0;
    return std::unexpected(error);
}

void RealSys::list_processes(std::vector<pid_t>& processes) {
    struct Close {
        void operator()(DIR* directory) const { (void)::closedir(directory); }
    };
    processes.clear();
    std::unique_ptr<DIR, Close> const directory{::opendir("/proc")};
    if (!directory) return list_children(processes);
    while (processes.size() < most_children) {
        dirent const* const entry = ::readdir(directory.get());
        if (!entry) return;
        std::string_view const name = entry->d_name;
        pid_t pid = 0;
        auto const [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (error == std::errc{} && end == name.data() + name.size()) processes.push_back(pid);
    }
}

bool RealSys::adopts_orphans() {
    int is_subreaper = 0;
    return ::getpid() == 1 || (::prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper) == 0 && is_subreaper != 0);
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
    // An ordinary file of that name in an image would grow for ever.
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
