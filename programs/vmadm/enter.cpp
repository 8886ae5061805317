#include "programs/vmadm/enter.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/new_calls.h"
#include "lib/base/pipe.h"
#include "lib/base/read_file.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "programs/vmadm/terminal.h"

namespace triton::program {

namespace {

constexpr int all_namespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP;
constexpr std::size_t most_proc_bytes = 64 << 10;

/// What the child does before the program runs. `stage_texts` has what an error calls each.
enum class Stage : std::uint8_t { keys, groups, limits, namespaces, root, identity, terminal, start };
constexpr std::array<std::string_view, 8> stage_texts{
    "leave the keys of the caller", "enter its control groups", "take its limits", "enter its namespaces",
    "enter its root directory",     "become its root",          "make a terminal", "start a process"};
static_assert(stage_texts.size() == static_cast<std::size_t>(Stage::start) + 1);

std::string proc_file(std::int64_t pid, char const* name) { return "/proc/" + std::to_string(pid) + "/" + name; }

/// Opens the top of a hierarchy of control groups, in either layout of /sys/fs/cgroup; nothing when that hierarchy is
/// not mounted there.
Result<UniqueFd> open_hierarchy(std::string_view controllers) {
    std::string const top = "/sys/fs/cgroup";
    std::vector<std::string> places;
    if (controllers.empty())
        places = {top, top + "/unified"};
    else if (controllers.starts_with("name="))
        places = {top + "/" + std::string(controllers.substr(5))};
    else
        places = {top + "/" + std::string(controllers)};
    for (std::string const& place : places) {
        UniqueFd directory{::open(place.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
        if (directory && entry_exists(directory.get(), "cgroup.procs")) return directory;
        if (errno != ENOENT) return fail(errno, "open " + place);
    }
    return UniqueFd();
}

bool has_line(std::string_view text, std::string_view line) {
    return ("\n" + std::string(text)).find("\n" + std::string(line) + "\n") != std::string::npos;
}

/// Opens the files by which a process enters the leader's control groups, so that the machine's limits hold for the
/// program, too. `own`: those of this process. Errors: when a group cannot be entered, since the program would then run
/// without limits.
Result<std::vector<UniqueFd>> open_cgroups(std::string_view groups, std::string_view own) {
    std::vector<UniqueFd> files;
    while (!groups.empty()) {
        std::size_t const end = std::min(groups.find('\n'), groups.size());
        std::string_view const line = groups.substr(0, end);
        groups.remove_prefix(std::min(end + 1, groups.size()));
        std::size_t const first = line.find(':');
        std::size_t const second = line.find(':', first + 1);
        if (second == std::string_view::npos) continue;
        if (has_line(own, line)) continue;
        std::string const controllers(line.substr(first + 1, second - first - 1));
        UniqueFd const top = TRY(open_hierarchy(controllers));
        if (!top) continue;
        // The machine chooses the path, which may be too long below another one.
        std::string const path = line.substr(second) == ":/" ? "." : std::string(line.substr(second + 2));
        UniqueFd const group{::openat(top.get(), path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
        UniqueFd procs{group ? ::openat(group.get(), "cgroup.procs", O_WRONLY | O_CLOEXEC) : -1};
        if (!procs) return fail(errno, "enter its control group of \"" + controllers + "\"");
        files.push_back(std::move(procs));
    }
    return files;
}

/// The leader's own limits, and its priority for the kernel when memory is short. Our caller may be exempt from that,
/// and a program that cannot be ended would cost all others.
struct Limits {
    std::array<struct rlimit, RLIM_NLIMITS> resources{};
    std::string oom_score;
};

Result<Limits> limits_of(std::int64_t leader) {
    Limits limits;
    for (std::size_t resource = 0; resource < limits.resources.size(); ++resource)
        if (::prlimit(static_cast<pid_t>(leader), static_cast<__rlimit_resource>(resource), nullptr,
                      &limits.resources.at(resource)) != 0)
            return fail(errno, "read the limits of the machine");
    limits.oom_score = TRY(read_file(proc_file(leader, "oom_score_adj"), most_proc_bytes));
    return limits;
}

/// Takes these limits, as far as we may raise ours. Makes only system calls. Returns false with errno.
bool take_limits(Limits const& limits) {
    for (std::size_t resource = 0; resource < limits.resources.size(); ++resource) {
        struct rlimit limit = limits.resources[resource], own{};
        auto const which = static_cast<__rlimit_resource>(resource);
        if (::setrlimit(which, &limit) == 0) continue;
        if (errno != EPERM || ::getrlimit(which, &own) != 0) return false;
        limit = {.rlim_cur = std::min(limit.rlim_cur, own.rlim_max),
                 .rlim_max = std::min(limit.rlim_max, own.rlim_max)};
        if (::setrlimit(which, &limit) != 0) return false;
    }
    UniqueFd const score{::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)};
    // Lowering the score may be denied; the kernel then ends this program sooner than others.
    return score && (write_all(score.get(), limits.oom_score) || errno == EACCES);
}

/// The capabilities that the leader could ever have, as a mask.
Result<std::uint64_t> bounding_set(std::int64_t leader) {
    std::string const status = TRY(read_file(proc_file(leader, "status"), most_proc_bytes));
    std::size_t const at = status.find("\nCapBnd:");
    if (at == std::string::npos)
        return fail(ErrorKind::unsupported, "read the capabilities of the machine", "the kernel does not tell them");
    return std::strtoull(status.c_str() + at + 8, nullptr, 16);
}

/// What the child needs, read before the fork: afterwards it makes only system calls.
struct Entry {
    UniqueFd pidfd;
    UniqueFd root;
    std::vector<UniqueFd> groups;  ///< its control groups, to write to
    Limits limits;
    std::uint64_t capabilities = 0;
    pid_t caller = -1;                         ///< the process that waits for the child
    std::vector<std::vector<char*>> programs;  ///< the first that is there is run
    StandardFiles terminals{};                 ///< of our files those that it gets a terminal of its own for
    UniqueFd terminal;                         ///< where our end of that is sent to
};

constexpr char path_of_root[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr std::array<char const*, 4> environment{path_of_root, "HOME=/root", "TERM=xterm-256color", nullptr};

[[noreturn]] void execute(Entry const& entry, int terminal) {
    // Never runs in the caller's session: the program could put characters into its terminal as if they were typed
    // (TIOCSTI).
    ::setsid();
    ::prctl(PR_SET_PDEATHSIG, SIGHUP);
    if (terminal >= 0) {
        ::ioctl(terminal, TIOCSCTTY, 0);
        for (int fd = 0; fd < 3; ++fd)
            if (entry.terminals.at(static_cast<std::size_t>(fd))) ::dup2(terminal, fd);
    }
    std::signal(SIGPIPE, SIG_DFL);
    ::syscall(SYS_close_range, 3U, ~0U, 0U);  // descriptors that a shell has lent us are not for the machine
    for (std::vector<char*> const& arguments : entry.programs) {
        ::execvpe(arguments.front(), arguments.data(), const_cast<char* const*>(environment.data()));
        int const err = errno;
        bool const is_last = &arguments == &entry.programs.back();
        if (err == ENOENT && !is_last) continue;
        ::dprintf(STDERR_FILENO, "vmadm: cannot execute %s: %s\n", arguments.front(), errno_text(err).c_str());
        ::_exit(err == ENOENT ? 127 : 126);
    }
    ::_exit(127);
}

/// A message with one descriptor. Source: cmsg(3).
class FileMessage {
public:
    FileMessage() {
        message_.msg_iov = &content_;
        message_.msg_iovlen = 1;
        message_.msg_control = control_.data();
        message_.msg_controllen = control_.size();
    }
    bool send(int socket, int file) {
        cmsghdr* const header = CMSG_FIRSTHDR(&message_);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof file);
        std::memcpy(CMSG_DATA(header), &file, sizeof file);
        return ::sendmsg(socket, &message_, 0) == 1;
    }
    /// Returns no descriptor if the other side has closed its end without sending one.
    UniqueFd receive(int socket) {
        while (::recvmsg(socket, &message_, MSG_CMSG_CLOEXEC) < 0)
            if (errno != EINTR) return {};
        cmsghdr const* const header = CMSG_FIRSTHDR(&message_);
        if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int))) return {};
        int file = -1;
        std::memcpy(&file, CMSG_DATA(header), sizeof file);
        return UniqueFd(file);
    }

private:
    char byte_ = 0;
    iovec content_{&byte_, 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control_{};
    msghdr message_{};
};

/// Waits for the child. Returns its exit code; nothing when it cannot be waited for, with errno.
std::optional<int> wait_for(pid_t child) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return std::nullopt;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Why the child has not come so far.
struct Refusal {
    Stage stage = Stage::keys;
    int error = 0;
};

[[noreturn]] void refuse(int report, Stage stage) {
    Refusal const refusal{stage, errno};
    (void)!::write(report, &refusal, sizeof refusal);  // nobody else to tell
    ::_exit(EXIT_FAILURE);
}

/// Waits until the child runs the program, or has refused to.
std::optional<Refusal> read_refusal(int report) {
    Refusal refusal;
    ssize_t got = 0;
    do {
        got = ::read(report, &refusal, sizeof refusal);
    } while (got < 0 && errno == EINTR);
    return got == sizeof refusal ? std::optional(refusal) : std::nullopt;
}

/// Enters the control groups; the process that relays for the machine stays in its own, where the machine can neither
/// freeze nor end it.
bool join(std::vector<UniqueFd> const& groups) {
    return std::ranges::all_of(groups, [](UniqueFd const& group) { return write_all(group.get(), "0"); });
}

/// Runs in the child: becomes a process of the machine and starts the program as its own child, which is in its PID
/// namespace.
[[noreturn]] void enter(Entry const& entry, int report) {
    // Until it executes a program of the machine, the machine's root sees a copy of us and must not open its files.
    ::prctl(PR_SET_DUMPABLE, 0);
    // The program could use the keys of the caller's session, as for encrypted directories: keyrings(7). Where a filter
    // denies this call, it also denies the use of keys.
    bool const has_own_keys = ::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr) >= 0;
    if (!has_own_keys && errno != ENOSYS && errno != EPERM) refuse(report, Stage::keys);
    if (!join(entry.groups)) refuse(report, Stage::groups);
    if (!take_limits(entry.limits)) refuse(report, Stage::limits);
    if (::setns(entry.pidfd.get(), all_namespaces) != 0) refuse(report, Stage::namespaces);
    if (::fchdir(entry.root.get()) != 0 || ::chroot(".") != 0) refuse(report, Stage::root);
    for (int capability = 0; capability < 64; ++capability)
        if (!(entry.capabilities >> capability & 1)) ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    if (::setgroups(0, nullptr) != 0 || ::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0)
        refuse(report, Stage::identity);
    // The program goes when its caller is killed. Set here, since a change of the identity clears it: prctl(2).
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != entry.caller) ::_exit(EXIT_FAILURE);
    std::optional<Terminal> terminal;
    if (entry.terminal) {
        terminal = make_terminal();
        if (!terminal || !FileMessage().send(entry.terminal.get(), terminal->ours.get()))
            refuse(report, Stage::terminal);
        terminal->ours = UniqueFd();
    }
    pid_t const program = ::fork();
    if (program < 0) refuse(report, Stage::start);
    if (program == 0) execute(entry, terminal ? terminal->theirs.get() : -1);
    // This process stays only to tell how the program ends, with nothing open.
    ::syscall(SYS_close_range, 0U, ~0U, 0U);
    ::_exit(wait_for(program).value_or(EXIT_FAILURE));
}

}  // namespace

Result<int> run_inside(std::string const& name, std::int64_t leader,
                       std::vector<std::vector<std::string>> const& programs, bool has_escape,
                       std::function<bool()> const& is_current) {
    std::string const what = "enter VM " + name;
    Entry entry;
    entry.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(leader), 0)));
    if (!entry.pidfd) return fail(errno, what);
    entry.root = UniqueFd(::open(proc_file(leader, "root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!entry.root) return fail(errno, what);
    entry.capabilities = TRY(bounding_set(leader));
    std::string const groups = TRY(read_file(proc_file(leader, "cgroup"), most_proc_bytes));
    if (!is_current()) return fail(ErrorKind::not_found, what, "it has just ended");
    for (std::vector<std::string> const& words : programs) {
        std::vector<char*>& arguments = entry.programs.emplace_back();
        for (std::string const& word : words)
            arguments.push_back(const_cast<char*>(word.c_str()));
        arguments.push_back(nullptr);
    }
    UniqueFd terminals;  // brings us our end of the terminal
    entry.terminals = own_terminals();
    bool const has_terminal = std::ranges::find(entry.terminals, true) != entry.terminals.end();
    if (has_terminal) {
        std::array<int, 2> ends{};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return fail(errno, what);
        terminals = UniqueFd(ends[0]);
        entry.terminal = UniqueFd(ends[1]);
    }
    // Changing this process is fine, since it ends soon.
    ::putenv(const_cast<char*>(path_of_root));  // by which execvpe(3) finds the program, whatever the caller's is
    std::string const own = TRY(read_file("/proc/self/cgroup", most_proc_bytes));
    entry.groups = TRY(open_cgroups(groups, own));
    entry.limits = TRY(limits_of(leader));
    entry.caller = ::getpid();
    Pipe report = TRY(make_pipe());  // it ends without a word when the program is about to be executed
    pid_t const child = ::fork();
    if (child < 0) return fail(errno, what);
    if (child == 0) enter(entry, report.writer.get());
    report.writer = UniqueFd();
    entry.terminal = UniqueFd();
    if (auto const refusal = read_refusal(report.reader.get())) {
        (void)wait_for(child);
        std::string const stage(stage_texts.at(static_cast<std::size_t>(refusal->stage)));
        return fail(kind_of_errno(refusal->error), what, stage + ": " + errno_text(refusal->error));
    }
    UniqueFd const ours = terminals ? FileMessage().receive(terminals.get()) : UniqueFd();
    if (ours && !is_terminal(ours.get()))
        return fail(ErrorKind::refused, what, "what it has as /dev/pts/ptmx makes no terminals");
    if (ours) {
        UniqueFd const running{static_cast<int>(::syscall(SYS_pidfd_open, child, 0))};
        if (!running) return fail(errno, what);
        OwnTerminal const own(entry.terminals);
        copy_size(own, ours.get());
        RelayEnd const end =
            relay_terminal(own, ours.get(), running.get(), has_escape ? std::optional(escape_character) : std::nullopt);
        // The program gets SIGHUP when its terminal goes; nobody waits for what it does then.
        if (end.why == Relayed::killed) return 128 + end.signal;
        if (end.why == Relayed::left) return 0;
    }
    auto const code = wait_for(child);
    if (!code) return fail(errno, "wait for the end of a program in VM " + name);
    return *code;
}

}  // namespace triton::program
