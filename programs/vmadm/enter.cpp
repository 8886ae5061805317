#include "programs/vmadm/enter.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "lib/base/read_file.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"

namespace triton::program {

namespace {

constexpr int all_namespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP;
constexpr std::size_t most_proc_bytes = 64 << 10;
constexpr int not_entered = 125;  // as env(1) and others: the program was not even tried

std::string proc_file(std::int64_t pid, char const* name) { return "/proc/" + std::to_string(pid) + "/" + name; }

/// The directory of a control group, in either layout of /sys/fs/cgroup; empty: that hierarchy is not mounted there.
std::string cgroup_directory(std::string_view controllers, std::string_view path) {
    std::string const top = "/sys/fs/cgroup";
    std::vector<std::string> places;
    if (controllers.empty())
        places = {top + "/unified", top};
    else if (controllers.starts_with("name="))
        places = {top + "/" + std::string(controllers.substr(5))};
    else
        places = {top + "/" + std::string(controllers)};
    for (std::string const& place : places) {
        std::string directory = place + std::string(path);
        if (::access((directory + "/cgroup.procs").c_str(), W_OK) == 0) return directory;
    }
    return "";
}

/// Goes where the leader is, so that the machine's limits hold for us, too. Errors: `denied` and others when a control
/// group cannot be entered: then the program would run without limits.
Result<> join_cgroups(std::string_view groups) {
    while (!groups.empty()) {
        std::size_t const end = std::min(groups.find('\n'), groups.size());
        std::string_view const line = groups.substr(0, end);
        groups.remove_prefix(std::min(end + 1, groups.size()));
        std::size_t const first = line.find(':');
        std::size_t const second = line.find(':', first + 1);
        if (second == std::string_view::npos) continue;
        std::string const directory =
            cgroup_directory(line.substr(first + 1, second - first - 1), line.substr(second + 1));
        if (directory.empty()) continue;
        UniqueFd const procs{::open((directory + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC)};
        if (!procs || !write_all(procs.get(), std::to_string(::getpid())))
            return fail(errno, "enter the control group " + directory);
    }
    return {};
}

/// The capabilities that the leader could ever have, as a mask.
Result<std::uint64_t> bounding_set(std::int64_t leader) {
    std::string const status = TRY(read_file(proc_file(leader, "status"), most_proc_bytes));
    std::size_t const at = status.find("\nCapBnd:");
    if (at == std::string::npos)
        return fail(ErrorKind::unsupported, "read the capabilities of the machine", "the kernel does not tell them");
    return std::strtoull(status.c_str() + at + 8, nullptr, 16);
}

/// What the child needs, read before it is forked: afterwards it makes system calls only.
struct Entry {
    UniqueFd pidfd;
    UniqueFd root;
    std::uint64_t capabilities = 0;
    std::vector<char*> arguments;
    int terminal = -1;  ///< the machine's end of the terminal; -1: our files are its
};

constexpr std::array<char const*, 4> environment{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                                 "HOME=/root", "TERM=xterm-256color", nullptr};

[[noreturn]] void execute(Entry const& entry) {
    if (entry.terminal >= 0) {
        ::setsid();
        ::ioctl(entry.terminal, TIOCSCTTY, 0);
        for (int fd = 0; fd < 3; ++fd)
            ::dup2(entry.terminal, fd);
    }
    std::signal(SIGPIPE, SIG_DFL);
    ::execvpe(entry.arguments.front(), entry.arguments.data(), const_cast<char* const*>(environment.data()));
    ::_exit(errno == ENOENT ? 127 : 126);
}

/// In the child: becomes a process of the machine, and starts the program as its child, which is in its PID namespace.
[[noreturn]] void enter(Entry const& entry) {
    bool const is_inside =
        ::setns(entry.pidfd.get(), all_namespaces) == 0 && ::fchdir(entry.root.get()) == 0 && ::chroot(".") == 0;
    if (!is_inside) ::_exit(not_entered);
    for (int capability = 0; capability < 64; ++capability)
        if (!(entry.capabilities >> capability & 1)) ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    if (::setgroups(0, nullptr) != 0 || ::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0) ::_exit(not_entered);
    pid_t const program = ::fork();
    if (program < 0) ::_exit(not_entered);
    if (program == 0) execute(entry);
    // This process stays only to tell how the program ends; it keeps nothing open.
    for (int fd = 0; fd < 3; ++fd)
        ::close(fd);
    if (entry.terminal >= 0) ::close(entry.terminal);
    int status = 0;
    while (::waitpid(program, &status, 0) < 0 && errno == EINTR) {
    }
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/// Our terminal, which hands each key on as it is until this goes.
class RawTerminal {
public:
    RawTerminal() {
        ::tcgetattr(STDIN_FILENO, &before_);
        termios raw = before_;
        ::cfmakeraw(&raw);
        ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    RawTerminal(RawTerminal const&) = delete;
    RawTerminal& operator=(RawTerminal const&) = delete;
    ~RawTerminal() { ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_); }

private:
    termios before_{};
};

/// Moves what is there from one file to another. Returns false at the end.
bool relay(int from, int to) {
    std::array<char, 4096> buffer{};
    ssize_t const got = ::read(from, buffer.data(), buffer.size());
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    return got > 0 && write_all(to, std::string_view(buffer.data(), static_cast<std::size_t>(got)));
}

/// Moves bytes between both terminals until the machine's end is closed.
void relay_terminal(int terminal) {
    RawTerminal const raw;
    std::array<pollfd, 2> files{{{STDIN_FILENO, POLLIN, 0}, {terminal, POLLIN, 0}}};
    for (;;) {
        if (::poll(files.data(), files.size(), -1) < 0 && errno != EINTR) return;
        if (files[1].revents && !relay(terminal, STDOUT_FILENO)) return;
        if (files[0].revents && !relay(STDIN_FILENO, terminal)) files[0].fd = -1;
    }
}

struct Terminal {
    UniqueFd ours;
    UniqueFd theirs;
};
Result<Terminal> make_terminal() {
    Terminal terminal;
    terminal.ours = UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!terminal.ours || ::unlockpt(terminal.ours.get()) != 0) return fail(errno, "make a terminal");
    terminal.theirs = UniqueFd(::ioctl(terminal.ours.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!terminal.theirs) return fail(errno, "make a terminal");
    // its owner is root of the host, who is nobody inside: the program may then not even open it again, and needs not
    winsize size{};
    if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0) ::ioctl(terminal.ours.get(), TIOCSWINSZ, &size);
    return terminal;
}

}  // namespace

Result<int> run_inside(std::int64_t leader, std::vector<std::string> const& words,
                       std::function<bool()> const& is_current) {
    Entry entry;
    entry.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(leader), 0)));
    if (!entry.pidfd) return fail(errno, "enter the machine");
    entry.root = UniqueFd(::open(proc_file(leader, "root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!entry.root) return fail(errno, "enter the machine");
    entry.capabilities = TRY(bounding_set(leader));
    std::string const groups = TRY(read_file(proc_file(leader, "cgroup"), most_proc_bytes));
    if (!is_current()) return fail(ErrorKind::not_found, "enter the machine", "it has just ended");
    for (std::string const& word : words)
        entry.arguments.push_back(const_cast<char*>(word.c_str()));
    entry.arguments.push_back(nullptr);
    Terminal terminal;
    if (::isatty(STDIN_FILENO) == 1) {
        terminal = TRY(make_terminal());
        entry.terminal = terminal.theirs.get();
    }
    TRY(join_cgroups(groups));  // this process is about to end anyway
    pid_t const child = ::fork();
    if (child < 0) return fail(errno, "enter the machine");
    if (child == 0) enter(entry);
    terminal.theirs = UniqueFd();
    if (terminal.ours) relay_terminal(terminal.ours.get());
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    int const code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == not_entered) return fail(ErrorKind::denied, "enter the machine", "its namespaces do not let us in");
    return code;
}

}  // namespace triton::program
