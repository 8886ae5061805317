#include "launcher/wrap/wrap.h"

#include <cerrno>
#include <csignal>
#include <cstdint>

#include <asm/ioctls.h>
#include <fcntl.h>
#include <linux/sched.h>

#include "launcher/wrap/early.h"
#include "lib/process/raw_syscall.h"

namespace triton::launcher {

namespace {

using process::raw::SignalSet;

// Includes the signals that hardware raises: somebody may send them, and a real fault ends us whether they are blocked
// or not.
constexpr SignalSet everything = ~0UL;

// wait4's status, without the macros of libc that other headers may redefine
constexpr bool has_exited(int status) { return (status & 0x7f) == 0; }
constexpr bool has_stopped(int status) { return (status & 0xff) == 0x7f; }
constexpr int exit_code(int status) { return (status >> 8) & 0xff; }
constexpr int ending_signal(int status) { return status & 0x7f; }

constexpr int at_terminal_fd = 0;  // tini and dumb-init judge by standard input as well

/// What the child reads and writes; it lives in the parent's frame, because the parent stands still until execve.
struct Child {
    WrapOptions const* options;
    char** argv;
    char** envp;
    int parent;
    SignalSet inherited_mask;
    process::raw::KernelSigaction inherited_sigchld;
    bool sigchld_was_ignored;
    bool foreground;  // our group has the terminal: hand it to the command
    WrapStage volatile stage;
    int volatile error;
};

char* find_variable(char** envp, char const* name) {
    for (; *envp; ++envp) {
        char const* at = *envp;
        char const* of_name = name;
        while (*of_name && *at == *of_name) {
            ++at;
            ++of_name;
        }
        if (!*of_name && *at == '=') return *envp;
    }
    return nullptr;
}

/// "LISTEN_PID=<pid>" into `text`, which has 32 bytes.
void format_listen_pid(char* text, int pid) {
    char const prefix[] = "LISTEN_PID=";
    unsigned at = 0;
    for (; prefix[at]; ++at)
        text[at] = prefix[at];
    char digits[12];
    int count = 0;
    do {
        digits[count++] = static_cast<char>('0' + pid % 10);
        pid /= 10;
    } while (pid);
    while (count)
        text[at++] = digits[--count];
    text[at] = 0;
}

/// Closes descriptors from 3 on. Inherited ones are for the command: if we held them too, a socket that it closes would
/// stay open. See close_all_descriptors_but() in process_setup.cpp.
void close_descriptors() {
    if (process::raw::call(SYS_close_range, 3, ~0U, 0) == 0) return;
    char const path[] = "/proc/self/fd";
    long const directory =
        process::raw::call(SYS_openat, AT_FDCWD, process::raw::address(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return;
    struct Entry {  // linux_dirent64 of getdents64(2)
        std::uint64_t inode;
        std::int64_t offset;
        unsigned short size;
        unsigned char type;
        char name[1];
    };
    alignas(Entry) char entries[1024];
    long size = 0;
    while ((size = process::raw::call(SYS_getdents64, directory, process::raw::address(entries), sizeof entries)) > 0) {
        for (long at = 0; at < size;) {
            auto const* const entry = reinterpret_cast<Entry const*>(entries + at);
            at += entry->size;
            long fd = 0;
            for (char const* digit = entry->name; *digit >= '0' && *digit <= '9'; ++digit)
                fd = fd * 10 + (*digit - '0');
            if (fd > 2 && fd != directory) (void)process::raw::call(SYS_close, fd);
        }
    }
    (void)process::raw::call(SYS_close, directory);
}

bool equal(char const* a, char const* b) {
    for (; *a && *a == *b; ++a)
        ++b;
    return *a == *b;
}

/// Socket activation names the process that the sockets are for. If that is us, it becomes the command
/// (sd_listen_fds(3)); any other number stays. `text` has room for the entry.
char** find_listen_pid(char** envp, char* text, int own_pid) {
    format_listen_pid(text, own_pid);
    for (; *envp; ++envp) {
        if (equal(*envp, text)) return envp;
    }
    return nullptr;
}

/// Takes a variable out of the environment; put_back() undoes it. Returns its entry; null: there is none.
char* take_out(char** envp, char const* name) {
    char* const entry = find_variable(envp, name);
    if (!entry) return nullptr;
    while (*envp != entry)
        ++envp;
    for (; *envp; ++envp)
        envp[0] = envp[1];
    return entry;
}

void put_back(char** envp, char* entry) {
    while (*envp)
        ++envp;
    *envp = entry;  // there are as many null pointers behind as were taken out
}

/// Calls execve and, as execvp(3) does, gives a script without `#!` to the shell. The two slots before the arguments
/// are ours to use: they held the `--` or the program's name, and the command's name.
int execute_file(char const* file, char** argv, char** envp) {
    int const error = static_cast<int>(-process::raw::call(SYS_execve, process::raw::address(file),
                                                           process::raw::address(argv), process::raw::address(envp)));
    if (error != ENOEXEC) return error;
    char shell[] = "/bin/sh";
    char** const with_shell = argv - 1;
    char* const saved[] = {with_shell[0], with_shell[1]};
    with_shell[0] = shell;
    with_shell[1] = const_cast<char*>(file);
    (void)process::raw::call(SYS_execve, process::raw::address(shell), process::raw::address(with_shell),
                             process::raw::address(envp));
    with_shell[0] = saved[0];
    with_shell[1] = saved[1];
    return ENOEXEC;
}

bool has_slash(char const* text) {
    for (; *text; ++text) {
        if (*text == '/') return true;
    }
    return false;
}

/// Searches as execvp(3) does: each directory of PATH; EACCES is remembered, since a later directory may do better.
int execute_in_path(char** argv, char** envp) {
    char const* const name = argv[0];
    if (has_slash(name)) return execute_file(name, argv, envp);
    if (!*name) return ENOENT;
    char const* const variable = find_variable(envp, "PATH");
    char const* at = variable ? variable + 5 : "/bin:/usr/bin";
    char path[4096];
    int error = ENOENT;
    for (;;) {
        unsigned length = 0;
        for (; *at && *at != ':'; ++at) {
            if (length < sizeof path) path[length++] = *at;
        }
        if (length && length < sizeof path) path[length++] = '/';
        for (char const* of_name = name; *of_name; ++of_name) {
            if (length < sizeof path) path[length++] = *of_name;
        }
        if (length < sizeof path) {
            path[length] = 0;
            int const result = execute_file(path, argv, envp);
            if (result == EACCES) {
                error = EACCES;
            } else if (result != ENOENT && result != ENOTDIR && result != ESTALE && result != ENODEV &&
                       result != ETIMEDOUT) {
                return result;
            }
        }
        if (!*at) return error;
        ++at;
    }
}

void give_up(Child& child, WrapStage stage, int error) {
    child.stage = stage;
    child.error = error;
    process::raw::exit(127);
}

void run_child(void* argument) {
    auto& child = *static_cast<Child*>(argument);
    int const pid = static_cast<int>(process::raw::call(SYS_getpid));
    if (child.options->session) {
        if (process::raw::Value const result = process::raw::call(SYS_setsid); result < 0)
            give_up(child, WrapStage::session, static_cast<int>(-result));
        // The parent has let go of the terminal. If there is none, this fails and nothing is lost.
        if (child.foreground) (void)process::raw::call(SYS_ioctl, at_terminal_fd, TIOCSCTTY, 0);
    } else {
        if (process::raw::Value const result = process::raw::call(SYS_setpgid, 0, 0); result < 0)
            give_up(child, WrapStage::process_group, static_cast<int>(-result));
        // This comes before execve, so that the command never runs in the background; SIGTTOU is still blocked.
        if (child.foreground)
            (void)process::raw::call(SYS_ioctl, at_terminal_fd, TIOCSPGRP, process::raw::address(&pid));
    }
    char listen_pid[32];
    char** listen_entry = find_listen_pid(child.envp, listen_pid, child.parent);
    char* const listen_own = listen_entry ? *listen_entry : nullptr;
    // Names the same process by what only its pidfd tells. Without it, the pid is believed.
    char* const listen_identity = listen_entry ? take_out(child.envp, "LISTEN_PIDFDID") : nullptr;
    if (listen_identity) listen_entry = find_listen_pid(child.envp, listen_pid, child.parent);  // it has moved
    if (listen_entry) {
        format_listen_pid(listen_pid, pid);
        *listen_entry = listen_pid;
    }
    if (child.sigchld_was_ignored)
        (void)process::raw::call(SYS_rt_sigaction, SIGCHLD, process::raw::address(&child.inherited_sigchld), 0,
                                 sizeof(SignalSet));
    (void)process::raw::call(SYS_rt_sigprocmask, SIG_SETMASK, process::raw::address(&child.inherited_mask), 0,
                             sizeof(SignalSet));
    int const error = execute_in_path(child.argv, child.envp);
    // The parent reports the failure and reads its environment for that, so our entry must not stay in it.
    if (listen_entry) *listen_entry = listen_own;
    if (listen_identity) put_back(child.envp, listen_identity);
    give_up(child, WrapStage::execute, error);
}

/// Leaves the working directory to the command: if we stayed there, a volume could not be unmounted.
void leave_directory() {
    char const root[] = "/";
    (void)process::raw::call(SYS_chdir, process::raw::address(root));  // stays where it is if "/" cannot be entered
}

class Init {
public:
    Init(WrapOptions const& options, WrapObserver const* observer) : options_(options), observer_(observer) {}

    WrapOutcome run(char** argv, char** envp);

private:
    WrapOutcome prepare();
    WrapOutcome start(char** argv, char** envp);
    bool reap();
    void let_die(int orphans);
    void forward(int received);
    void send(int signo) const;
    bool take_foreground();
    void give_terminal_back() const;
    void follow_stop(int signo);
    bool wait_for_signal(int& signo);
    void arm_stop_timeout();
    [[nodiscard]] int code_of(int status) const;

    WrapOptions const& options_;
    WrapObserver const* observer_;
    SignalSet inherited_mask_ = 0;
    process::raw::KernelSigaction inherited_sigchld_{};
    SignalSet ignore_once_ = 0;
    std::int64_t kill_at_ = 0;
    std::int64_t reap_at_ = 0;  // when not 0, SIGCHLD waits until then
    std::int64_t storm_since_ = 0;
    int storm_size_ = 0;  // orphans since then
    int own_pid_ = 0;
    int child_ = 0;
    int status_ = 0;
    bool has_terminal_ = false;  // our group was in its foreground
    int terminal_group_ = 0;     // 0: it belongs to another PID namespace
    bool is_pid_1_ = false;
};

constexpr bool is_stop(int signo) { return signo == SIGTERM || signo == SIGINT || signo == SIGQUIT; }
constexpr bool is_from_terminal(int signo) { return signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU; }

std::int64_t monotonic_now() {
    std::int64_t time[2] = {};
    (void)process::raw::call(SYS_clock_gettime, 1 /* CLOCK_MONOTONIC */, process::raw::address(&time));
    return time[0] * 1'000'000'000 + time[1];
}

WrapOutcome Init::prepare() {
    // Blocked from here on: PID 1 has no default actions, and a signal that comes while we start is kept for the child.
    (void)process::raw::call(SYS_rt_sigprocmask, SIG_SETMASK, process::raw::address(&everything),
                             process::raw::address(&inherited_mask_), sizeof(SignalSet));
    if (early.has_blocked_signals) inherited_mask_ = early.signal_mask;
    // An inherited SIG_IGN for SIGCHLD would have the kernel reap the command and lose its exit code.
    process::raw::KernelSigaction const fresh{};
    (void)process::raw::call(SYS_rt_sigaction, SIGCHLD, process::raw::address(&fresh),
                             process::raw::address(&inherited_sigchld_), sizeof(SignalSet));
    own_pid_ = static_cast<int>(process::raw::call(SYS_getpid));
    is_pid_1_ = own_pid_ == 1;
    if (!is_pid_1_) {
        process::raw::Value const result = process::raw::call(SYS_prctl, 36 /* PR_SET_CHILD_SUBREAPER */, 1);
        if (result < 0 && options_.subreaper) return {WrapStage::subreaper, static_cast<int>(-result), 0};
    }
    if (options_.parent_death_signal) {
        process::raw::Value const parent = process::raw::call(SYS_getppid);
        process::raw::Value const result =
            process::raw::call(SYS_prctl, 1 /* PR_SET_PDEATHSIG */, options_.parent_death_signal);
        if (process::raw::call(SYS_getppid) != parent)  // the parent died before that
            (void)process::raw::call(SYS_kill, own_pid_, options_.parent_death_signal);
        if (result < 0) return {WrapStage::parent_death_signal, static_cast<int>(-result), 0};
    }
    int group = 0;
    has_terminal_ = process::raw::call(SYS_ioctl, at_terminal_fd, TIOCGPGRP, process::raw::address(&group)) == 0 &&
                    group == process::raw::call(SYS_getpgid, 0);
    if (has_terminal_) terminal_group_ = group;
    if (has_terminal_ && options_.session) {
        // A session leader that lets go of its terminal gets SIGHUP and SIGCONT for it; these are not to be forwarded.
        bool const leads = process::raw::call(SYS_getsid, 0) == own_pid_;
        if (process::raw::call(SYS_ioctl, at_terminal_fd, TIOCNOTTY) == 0 && leads)
            ignore_once_ = process::raw::bit(SIGHUP) | process::raw::bit(SIGCONT);
    }
    return {};
}

WrapOutcome Init::start(char** argv, char** envp) {
    char** command = argv + options_.command;
    if (options_.drops_separator) {
        command[1] = command[0];
        ++command;
    }
    alignas(16) char stack[12288];  // PATH_MAX and some frames; the child leaves it at execve
    Child child{&options_,
                command,
                envp,
                own_pid_,
                inherited_mask_,
                inherited_sigchld_,
                inherited_sigchld_.handler == SIG_IGN,
                has_terminal_,
                WrapStage::none,
                0};
    // The parent stands still until the command runs or has failed, so both share this frame safely.
    process::raw::Value const pid =
        process::raw::clone(CLONE_VM | CLONE_VFORK | SIGCHLD, stack + sizeof stack, nullptr, run_child, &child);
    if (pid < 0) return {WrapStage::clone, static_cast<int>(-pid), 0};
    child_ = static_cast<int>(pid);
    if (child.stage == WrapStage::none) return {};
    (void)process::raw::call(SYS_wait4, child_, 0, 0, 0);
    give_terminal_back();
    return {child.stage, child.error, 0};
}

int Init::code_of(int status) const {
    return remapped(options_, has_exited(status) ? exit_code(status) : 128 + ending_signal(status));
}

void Init::send(int signo) const {
    bool const reached_group = options_.group && process::raw::call(SYS_kill, -child_, signo) == 0;
    // The command may have left its group while others are still in it.
    if (!reached_group || signo == SIGKILL) (void)process::raw::call(SYS_kill, child_, signo);
}

/// A shell may have put our group into the foreground (fg) after a start in the background: the command is to have the
/// terminal. Returns whether that is so.
bool Init::take_foreground() {
    if (is_pid_1_ || options_.session || options_.pause) return false;
    int group = 0;
    if (process::raw::call(SYS_ioctl, at_terminal_fd, TIOCGPGRP, process::raw::address(&group)) != 0 ||
        group != process::raw::call(SYS_getpgid, 0))
        return false;
    terminal_group_ = group;
    (void)process::raw::call(SYS_ioctl, at_terminal_fd, TIOCSPGRP, process::raw::address(&child_));
    return true;
}

/// Takes the terminal back from the command's group, which is gone: others in our group (a script, make) would read
/// EIO. SIGTTOU is blocked.
void Init::give_terminal_back() const {
    if (!terminal_group_ || options_.session || is_pid_1_) return;
    int group = 0;
    if (process::raw::call(SYS_ioctl, at_terminal_fd, TIOCGPGRP, process::raw::address(&group)) != 0 || group != child_)
        return;
    (void)process::raw::call(SYS_ioctl, at_terminal_fd, TIOCSPGRP, process::raw::address(&terminal_group_));
}

/// Follows a command that the terminal has stopped (^Z). The shell above us waits for our group to stop: take the
/// terminal back, stop, and hand everything on when the shell continues us. PID 1 has no shell above it, and neither
/// has the leader of a session.
void Init::follow_stop(int signo) {
    int group = 0;
    bool const has_shell_above = !is_pid_1_ && process::raw::call(SYS_getsid, 0) != own_pid_;
    if (!has_shell_above || options_.session ||
        process::raw::call(SYS_ioctl, at_terminal_fd, TIOCGPGRP, process::raw::address(&group)) != 0)
        return;
    // The command stopped because it did not have the terminal. The shell has given it to us (fg) meanwhile.
    bool const wants_terminal = signo == SIGTTIN || signo == SIGTTOU;
    if (!wants_terminal || !take_foreground()) {
        give_terminal_back();
        (void)process::raw::call(SYS_kill, own_pid_, SIGSTOP);
        (void)take_foreground();
    }
    (void)process::raw::call(SYS_kill, -child_, SIGCONT);
}

/// Reaps all children that have ended, since SIGCHLD coalesces. Returns whether the command was among them: what has
/// ended after it may be left, since we end as well. The kernel looks at the eldest child first, which is the command.
bool Init::reap() {
    reap_at_ = 0;
    for (int orphans = 0;;) {
        int status = 0;
        auto const pid = static_cast<int>(
            process::raw::call(SYS_wait4, -1, process::raw::address(&status), 1 /* WNOHANG */ | 2 /* WUNTRACED */, 0));
        if (pid == -EINTR) continue;
        if (pid <= 0) {
            let_die(orphans);
            return false;
        }
        if (has_stopped(status)) {
            if (pid == child_) follow_stop(exit_code(status));
            continue;
        }
        if (pid == child_) {
            status_ = status;
            return true;
        }
        ++orphans;
        if (observer_ && observer_->reaped) observer_->reaped(pid, status);
    }
}

/// Each wait walks over all living children, and a child that dies meanwhile waits for the kernel's lock: many that end
/// at once are reaped sooner when they may die first. See Children::let_die().
void Init::let_die(int orphans) {
    constexpr int orphans_of_a_storm = 16;
    constexpr std::int64_t window = 4'000'000, pause = 1'000'000;  // ns
    if (orphans == 0) return;
    std::int64_t const now = monotonic_now();
    if (now - storm_since_ > window) {
        storm_since_ = now;
        storm_size_ = 0;
    }
    storm_size_ += orphans;
    if (storm_size_ >= orphans_of_a_storm) reap_at_ = now + pause;
}

void Init::arm_stop_timeout() {
    if (options_.stop_timeout && !kill_at_) kill_at_ = monotonic_now() + options_.stop_timeout;
}

void Init::forward(int received) {
    if (ignore_once_ & process::raw::bit(received)) {
        ignore_once_ &= ~process::raw::bit(received);
        return;
    }
    int const signo = options_.rewrite[received];
    if (options_.pause) return;
    if (received == SIGCONT) (void)take_foreground();
    if (signo) {
        // A container runtime stops by TERM, whatever that is to be for the command.
        if (received == SIGTERM || is_stop(signo)) arm_stop_timeout();
        // With its own session the command's group is orphaned, and the kernel discards these signals for it (POSIX,
        // 2.4.3).
        bool const is_discarded = options_.session && is_from_terminal(signo) && signo == received;
        send(is_discarded ? SIGSTOP : signo);
        if (observer_ && observer_->forwarded) observer_->forwarded(signo, child_);
    }
    // As dumb-init does, even if the signal was rewritten or dropped: the shell that sent it waits for us to stop.
    bool const suspends = options_.session || options_.flavor == Flavor::dumb_init;
    if (suspends && is_from_terminal(received) && !is_pid_1_) (void)process::raw::call(SYS_kill, own_pid_, SIGSTOP);
}

/// Waits for a signal, for ever unless a stop timeout runs. Returns false when that timeout has passed.
bool Init::wait_for_signal(int& signo) {
    for (;;) {
        std::int64_t timeout[2] = {};
        std::int64_t const until = reap_at_ && (!kill_at_ || reap_at_ < kill_at_) ? reap_at_ : kill_at_;
        if (until) {
            std::int64_t const left = until - monotonic_now();
            signo = SIGCHLD;
            if (left <= 0) return until == reap_at_;
            timeout[0] = left / 1'000'000'000;
            timeout[1] = left % 1'000'000'000;
        }
        SignalSet const awaited = reap_at_ ? everything & ~process::raw::bit(SIGCHLD) : everything;
        process::raw::Value const result =
            process::raw::call(SYS_rt_sigtimedwait, process::raw::address(&awaited), 0,
                               until ? process::raw::address(&timeout) : 0, sizeof(SignalSet));
        if (result > 0) {
            signo = static_cast<int>(result);
            return true;
        }
        if (result == -EINTR || result == -EAGAIN) continue;
        // A seccomp profile refuses it: signals cannot be read, but the end of the command can be waited for.
        (void)process::raw::call(SYS_waitid, 0 /* P_ALL */, 0, 0, 4 /* WEXITED */ | 0x01000000 /* WNOWAIT */, 0);
        signo = SIGCHLD;
        return true;
    }
}

WrapOutcome Init::run(char** argv, char** envp) {
    if (WrapOutcome const failed = prepare(); failed.stage != WrapStage::none) return failed;
    if (!options_.pause) {
        if (WrapOutcome const failed = start(argv, envp); failed.stage != WrapStage::none) return failed;
        leave_directory();
        if (observer_ && observer_->started) observer_->started(child_);
    } else {
        leave_directory();
        (void)reap();  // those that ended before SIGCHLD was kept for us
    }
    close_descriptors();
    constexpr unsigned signals_between_reaps = 16;
    for (unsigned forwarded = 0;;) {
        int signo = 0;
        if (!wait_for_signal(signo)) {
            kill_at_ = 0;
            if (observer_ && observer_->timed_out) observer_->timed_out(child_);
            send(SIGKILL);
        } else if (signo != SIGCHLD) {
            bool const is_power = is_pid_1_ && options_.rewrite[signo] == SIGPWR;  // from lxc-stop
            if (options_.pause && (is_stop(options_.rewrite[signo]) || is_power)) return {};
            forward(signo);
            // The kernel hands out the lowest number first: a flood of others must not keep SIGCHLD waiting.
            if (++forwarded % signals_between_reaps == 0 && !reap_at_ && reap()) break;
        } else if (reap()) {
            break;
        }
    }
    // As dumb-init does: the rest of the session gets a signal. (For PID 1, our exit ends the rest.)
    if (options_.session && options_.group) (void)process::raw::call(SYS_kill, -child_, SIGTERM);
    give_terminal_back();
    return {WrapStage::none, 0, code_of(status_)};
}

}  // namespace

WrapOutcome run_wrap(WrapOptions const& options, char** argv, char** envp, WrapObserver const* observer) {
    return Init{options, observer}.run(argv, envp);
}

}  // namespace triton::launcher
