#include "host/role/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/role/detached_mount.h"
#include "lib/base/new_calls.h"
#include "lib/base/pipe.h"
#include "lib/base/read_file.h"
#include "lib/base/signal_text.h"
#include "lib/base/write_all.h"
#include "lib/process/identity.h"

namespace triton::role {

namespace {

struct RoleRow {
    Role role;
    std::string_view program;
    /// The user when no account has the program's name: the same on every host, and used by nobody else.
    std::uint32_t user;
    unsigned long namespaces;
    std::string_view starter;  ///< whose program it is
};
constexpr unsigned long common_namespaces =
    CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
constexpr std::array<RoleRow, 4> roles{{
    {Role::download, "triton-download", 64901, common_namespaces, "imgadm"},
    {Role::verify, "triton-verify", 64902, common_namespaces | CLONE_NEWNET, "imgadm"},
    {Role::unpack, "triton-unpack", 64903, common_namespaces | CLONE_NEWNET, "imgadm"},
    {Role::stream, "triton-cri-stream", 64904, common_namespaces | CLONE_NEWNET, "tritoncrid"},
}};
constexpr RoleRow const& program_row(Role role) { return roles[static_cast<std::size_t>(role)]; }
static_assert(std::ranges::all_of(roles, [](RoleRow const& row) { return &program_row(row.role) == &row; }));

constexpr std::string_view installed_directory = "/usr/libexec/triton";

std::string attempt(Role role) { return "start " + std::string(program_of(role)); }

std::string directory_of_this_program() {
    std::array<char, PATH_MAX> path{};
    ssize_t const length = ::readlink("/proc/self/exe", path.data(), path.size());
    std::string_view const text(path.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    return std::string(text.substr(0, text.rfind('/') + 1));
}

std::string program_path(Role role, std::string const& directory) {
    std::string const name(program_of(role));
    if (!directory.empty()) return directory + "/" + name;
    if (char const* const chosen = std::getenv("TRITON_LIBEXEC"); chosen && *chosen == '/')
        return std::string(chosen) + "/" + name;
    std::string beside = directory_of_this_program() + name;
    if (::access(beside.c_str(), X_OK) == 0) return beside;
    return std::string(installed_directory) + "/" + name;
}

struct Account {
    std::uint32_t user;
    std::uint32_t group;
};
Account account_of(Role role) {
    RoleRow const& row = program_row(role);
    if (auto const accounts = process::Accounts::read({})) {
        if (auto const user = accounts->find_user(row.program); user && user->id != 0) return {user->id, user->group};
    }
    return {row.user, row.user};
}

/// One kind of ids in a role's user namespace: the text for /proc/PID/uid_map, and the role's own id in it.
struct IdMap {
    std::string text;
    std::uint32_t own;
};
std::string map_line(std::uint32_t inside, std::uint32_t outside, std::uint32_t count) {
    return std::to_string(inside) + " " + std::to_string(outside) + " " + std::to_string(count) + "\n";
}
IdMap id_map(Role role, IdRange const& ids, std::uint32_t own) {
    if (role != Role::unpack) return {map_line(0, own, 1), 0};
    std::string const range = map_line(0, ids.first, ids.count);
    if (own >= ids.first && own - ids.first < ids.count) return {range, own - ids.first};
    return {range + map_line(ids.count, own, 1), ids.count};
}

Result<> write_proc(int pid, std::string_view file, std::string_view text) {
    std::string const path = "/proc/" + std::to_string(pid) + "/" + std::string(file);
    UniqueFd const fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    // in one write: the kernel takes a map once
    if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        return fail(errno, "write " + path);
    return {};
}

/// What the child needs, made before clone(2): afterwards only system calls are safe.
struct Child {
    int program;
    int channel;
    int go;      // read end; a byte says that the ids are set
    int giver;   // the other end, of which only the parent may have a copy: so its end is noticed
    int report;  // write end, close-on-exec: the errno of what failed
    int null;
    char* const* arguments;
};

/// Lets signals through again. Those of the terminal that have come before setsid(2) were for our process group.
bool take_signals() noexcept {
    for (int const signal : {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGTSTP}) {
        ::signal(signal, SIG_IGN);  // discards the one that waits
        ::signal(signal, SIG_DFL);
    }
    sigset_t none;
    ::sigemptyset(&none);
    return ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, _NSIG / 8) == 0;
}

[[noreturn]] void run_child(Child const& child) noexcept {
    char byte = 0;
    std::array<char*, 1> const environment{nullptr};
    ::close(child.giver);
    // Another child of ours may hold a copy of it, too. The signal is requested again below, because a change of user
    // clears it.
    bool const is_ready =
        ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::read(child.go, &byte, 1) == 1  // nothing: the parent is gone
        && ::syscall(SYS_setgroups, 0, nullptr) == 0 && ::syscall(SYS_setresgid, 0, 0, 0) == 0 &&
        ::syscall(SYS_setresuid, 0, 0, 0) == 0 && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::setsid() >= 0 &&
        take_signals() && ::dup2(child.null, STDIN_FILENO) >= 0 && ::dup2(child.null, STDOUT_FILENO) >= 0
#if !defined(__SANITIZE_ADDRESS__)
        && ::dup2(child.null, STDERR_FILENO) >= 0
#endif
        && ::dup2(child.channel, channel_descriptor) >= 0 &&
        ::syscall(SYS_close_range, channel_descriptor + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0;
    if (is_ready) ::syscall(SYS_execveat, child.program, "", child.arguments, environment.data(), AT_EMPTY_PATH);
    int const error = errno;
    (void)!::write(child.report, &error, sizeof error);
    ::_exit(127);
}

/// Moves a descriptor whose number the child would overwrite.
Result<UniqueFd> above_channel(UniqueFd fd) {
    if (!fd) return fail(errno, "get a descriptor");
    if (fd.get() > channel_descriptor) return fd;
    UniqueFd moved(::fcntl(fd.get(), F_DUPFD_CLOEXEC, channel_descriptor + 1));
    if (!moved) return fail(errno, "duplicate a descriptor");
    return moved;
}

/// The host's /dev/null, as something that its holder cannot change for others.
Result<UniqueFd> open_null() {
    UniqueFd const null(::open("/dev/null", O_PATH | O_CLOEXEC));
    if (!null) return fail(errno, "open /dev/null");
    return above_channel(TRY(open_read_only_mount(null.get(), O_RDWR, "/dev/null")));
}

struct Clone {
    int pid;
    UniqueFd pidfd;
};
Result<Clone> clone_child(unsigned long namespaces, Child const& child) {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of ours may run in the child
    int pidfd = -1;
    long const pid = ::syscall(SYS_clone, namespaces | CLONE_PIDFD | SIGCHLD, nullptr, &pidfd, nullptr, nullptr);
    if (pid == 0) run_child(child);
    int const error = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) return fail(error, "create its namespaces");
    return Clone{static_cast<int>(pid), UniqueFd(pidfd)};
}

Result<> map_ids(int pid, IdMap const& users, IdMap const& groups) {
    TRY(write_proc(pid, "uid_map", users.text));
    TRY(write_proc(pid, "gid_map", groups.text));
    return {};
}

/// Reaps the process, and returns how it ended.
Result<siginfo_t> reap_now(UniqueFd const& pidfd) {
    siginfo_t info{};
    while (::waitid(P_PIDFD, static_cast<id_t>(pidfd.get()), &info, WEXITED) != 0)
        if (errno != EINTR) return fail(errno, "wait for a process");
    return info;
}

}  // namespace

std::string_view program_of(Role role) { return program_row(role).program; }
std::string_view starter_of(Role role) { return program_row(role).starter; }

Result<RoleProcess> RoleProcess::start(Role role, RoleSettings const& settings) {
    if (::geteuid() != 0) return fail(ErrorKind::denied, attempt(role), "this needs root");
    std::string const path = program_path(role, settings.directory);
    UniqueFd program(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!program) return fail(errno, "open " + path);
    program = TRY(above_channel(std::move(program)));
    auto channels = TRY(Channel::pair());
    UniqueFd channel = TRY(above_channel(UniqueFd(::fcntl(channels.second.fd(), F_DUPFD_CLOEXEC, 0))));
    Pipe go = TRY(make_pipe());
    Pipe report = TRY(make_pipe());
    go.reader = TRY(above_channel(std::move(go.reader)));
    report.writer = TRY(above_channel(std::move(report.writer)));
    UniqueFd null = TRY(open_null());

    Account const account = account_of(role);
    IdMap const users = id_map(role, settings.ids, account.user);
    IdMap const groups = id_map(role, settings.ids, account.group);
    std::string name(program_of(role));
    std::string own_user = std::to_string(users.own);
    std::string own_group = std::to_string(groups.own);
    std::array<char*, 4> arguments{name.data(), own_user.data(), own_group.data(), nullptr};
    Child const child{program.get(),       channel.get(), go.reader.get(), go.writer.get(),
                      report.writer.get(), null.get(),    arguments.data()};
    auto clone = clone_child(program_row(role).namespaces, child);
    if (!clone) {
        return fail(clone.error().kind, attempt(role), clone.error().text());
    }
    RoleProcess started(role, std::move(channels.first), std::move(clone->pidfd), clone->pid);
    channels.second.close();
    channel = UniqueFd();
    report.writer = UniqueFd();
    if (auto mapped = map_ids(started.pid_, users, groups); !mapped)
        return fail(mapped.error().kind, attempt(role), mapped.error().text());
    if (!write_all(go.writer.get(), "g")) return fail(errno, attempt(role));
    int error = 0;
    ssize_t got = 0;
    while ((got = ::read(report.reader.get(), &error, sizeof error)) < 0 && errno == EINTR) {
    }
    if (got == sizeof error) return fail(error, "execute " + path);
    return started;
}

RoleProcess::RoleProcess(Role role, Channel channel, UniqueFd pidfd, int pid)
    : role_(role), channel_(std::move(channel)), pidfd_(std::move(pidfd)), pid_(pid) {}

RoleProcess::RoleProcess(RoleProcess&& other) noexcept
    : role_(other.role_),
      channel_(std::move(other.channel_)),
      pidfd_(std::move(other.pidfd_)),
      pid_(std::exchange(other.pid_, -1)) {}

RoleProcess& RoleProcess::operator=(RoleProcess&& other) noexcept {
    kill();
    role_ = other.role_;
    channel_ = std::move(other.channel_);
    pidfd_ = std::move(other.pidfd_);
    pid_ = std::exchange(other.pid_, -1);
    return *this;
}

RoleProcess::~RoleProcess() { kill(); }

void RoleProcess::kill() {
    if (pid_ < 0) return;
    channel_.close();
    (void)signal_child(pidfd_.get(), pid_, SIGKILL);
    (void)reap_now(pidfd_);  // SIGKILL ends every process, and nobody asks how
    pid_ = -1;
}

Result<> RoleProcess::reap() {
    siginfo_t const info = TRY(reap_now(pidfd_));
    pid_ = -1;
    std::string const program(program_of(role_));
    // The kernel sends SIGKILL when it is short of memory; all else is the program's own doing, and may be that of the
    // bytes that it has read.
    bool const is_from_outside = info.si_code == CLD_KILLED && info.si_status == SIGKILL;
    if (info.si_code != CLD_EXITED)
        return fail(is_from_outside ? ErrorKind::unavailable : ErrorKind::corrupt,
                    program + " was killed by " + signal_text(info.si_status));
    if (info.si_status != 0)
        return fail(ErrorKind::corrupt, program + " exited with code " + std::to_string(info.si_status));
    return {};
}

Result<> RoleProcess::finish(TimePoint deadline) {
    if (pid_ < 0) return {};
    channel_.close();
    for (;;) {
        auto const left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd watched{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
        int const ready = ::poll(&watched, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX)));
        if (ready > 0) return reap();
        if (ready < 0 && errno == EINTR) continue;
        if (ready < 0 || left.count() <= INT_MAX) break;
    }
    kill();
    return fail(ErrorKind::timeout, std::string(program_of(role_)) + " did not end in time");
}

}  // namespace triton::role
