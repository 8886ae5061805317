#include "launcher/children/process_setup.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "launcher/wrap/early.h"
#include "lib/base/standard_descriptors.h"

namespace triton::launcher {

namespace {

/// The signals that our parent has left ignored: a shell SIGINT and SIGQUIT behind "&", nohup SIGHUP, Python SIGPIPE.
/// execve(2) keeps that, for us and for what we start.
process::raw::SignalSet ignored_signals() {
    process::raw::SignalSet ignored = 0;
    for (int signo = 1; signo <= process::raw::highest_signal; ++signo) {
        process::raw::KernelSigaction action{};
        (void)process::raw::call(SYS_rt_sigaction, signo, 0, process::raw::address(&action),
                                 sizeof(process::raw::SignalSet));
        if (action.handler == SIG_IGN) ignored |= process::raw::bit(signo);
    }
    return ignored;
}

}  // namespace

/// Closes all descriptors from 3 on but one. close_range(2) is one call whatever RLIMIT_NOFILE says; a loop up to that
/// limit has cost others minutes. Where the kernel or a seccomp profile does not offer it, /proc lists the open
/// descriptors.
void close_all_descriptors_but(int kept) {
    unsigned const first = kept > STDERR_FILENO ? static_cast<unsigned>(kept) + 1 : 3;
    bool const is_below_closed = first <= 4 || process::raw::call(SYS_close_range, 3, first - 2, 0) == 0;
    if (is_below_closed && process::raw::call(SYS_close_range, first, ~0U, 0) == 0) return;
    DIR* const directory = ::opendir("/proc/self/fd");
    if (!directory) return;
    while (dirent const* const entry = ::readdir(directory)) {
        int const fd = std::atoi(entry->d_name);
        if (fd > STDERR_FILENO && fd != kept && fd != ::dirfd(directory)) (void)::close(fd);
    }
    ::closedir(directory);
}

Result<ProcessSetup> set_up_process(int parent_death_signal, bool keeps_descriptors) {
    ProcessSetup setup;
    // All of them: a real fault ends us whether its signal is blocked or not.
    process::raw::SignalSet const handled = ~0UL;
    process::raw::Value const blocked =
        process::raw::call(SYS_rt_sigprocmask, SIG_SETMASK, process::raw::address(&handled),
                           process::raw::address(&setup.inherited.mask), sizeof handled);
    // Otherwise the first SIGTERM would silently end us, and with us everything that runs.
    if (blocked != 0) return fail(static_cast<int>(-blocked), "block signals");
    if (early.has_blocked_signals) setup.inherited.mask = early.signal_mask;
    process::raw::KernelSigaction const fresh{};
    (void)process::raw::call(SYS_rt_sigaction, SIGCHLD, process::raw::address(&fresh),
                             process::raw::address(&setup.inherited.sigchld), sizeof handled);
    setup.inherited.sigchld_was_ignored = setup.inherited.sigchld.handler == SIG_IGN;
    setup.inherited.ignored = ignored_signals();  // blocked signals reach us all the same

    open_missing_standard_descriptors();
    // Nobody owns what else was inherited: a pipe that we held would never end for its reader.
    if (!keeps_descriptors) close_all_descriptors_but(-1);

    setup.is_pid_1 = ::getpid() == 1;
    setup.leads_session = ::getsid(0) == ::getpid();
    if (!setup.is_pid_1 && ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        setup.warnings.push_back("cannot become a subreaper, orphans go to PID 1: " + errno_text(errno));
    char const* const container = std::getenv("container");
    setup.is_machine = setup.is_pid_1 && container && std::string_view(container) == "systemd-nspawn";
    if (parent_death_signal != 0) {
        pid_t const parent = ::getppid();
        if (::prctl(PR_SET_PDEATHSIG, parent_death_signal) != 0)
            setup.warnings.push_back("cannot set the parent death signal: " + errno_text(errno));
        if (::getppid() != parent) (void)::kill(::getpid(), parent_death_signal);  // the parent died before that
    }

    // libc's own wrapper, because its sigset_t is larger than the kernel's; ours fills its beginning
    sigset_t set;
    ::sigemptyset(&set);
    std::memcpy(&set, &handled, sizeof handled);
    setup.signals = UniqueFd{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
    int const err = errno;
    if (!setup.signals) return fail(err, "read signals from a descriptor");
    return setup;
}

}  // namespace triton::launcher
