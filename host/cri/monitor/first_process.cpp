#include "host/cri/monitor/first_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/pipe.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"

namespace triton::cri::monitor {

namespace {

/// Nobody can change it: who gets at it gets at no program of the host.
Result<UniqueFd> copy_ourselves() {
    UniqueFd const from{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
    struct stat status{};
    if (!from || ::fstat(from.get(), &status) != 0) return fail(errno, "open our own program");
    UniqueFd copy{::memfd_create("triton-pod", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (!copy) return fail(errno, "make a file in memory");
    for (off_t left = status.st_size; left > 0;) {
        ssize_t const size = ::sendfile(copy.get(), from.get(), nullptr, static_cast<std::size_t>(left));
        if (size <= 0) return fail(size < 0 ? errno : EIO, "copy our own program");
        left -= size;
    }
    if (::fcntl(copy.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
        return fail(errno, "seal a file in memory");
    return copy;
}

Result<> enter_empty_root(std::string const& place) {
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return fail(errno, "keep mounts private");
    constexpr unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;
    if (::mount("empty", place.c_str(), "tmpfs", flags, "mode=0555,nr_inodes=2") != 0)
        return fail(errno, "mount an empty root on " + place);
    // The old root comes on top of the new one, and is taken away there.
    if (::chdir(place.c_str()) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 || ::umount2(".", MNT_DETACH) != 0 ||
        ::chdir("/") != 0)
        return fail(errno, "enter an empty root");
    return {};
}

Result<> drop_capabilities() {
    for (int number = 0; ::prctl(PR_CAPBSET_READ, number) >= 0; ++number)
        if (::prctl(PR_CAPBSET_DROP, number) != 0) return fail(errno, "drop capabilities");
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
    if (::syscall(SYS_capset, &header, none.data()) != 0) return fail(errno, "drop capabilities");
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail(errno, "set no_new_privs");
    return {};
}

/// Our own user is root of the host, whom files of /proc and others take for their owner.
Result<> become_root_inside() {
    constexpr gid_t* no_groups = nullptr;
    if (::setgroups(0, no_groups) != 0 || ::setresgid(0, 0, 0) != 0 || ::setresuid(0, 0, 0) != 0)
        return fail(errno, "become root of the user namespace");
    return {};
}

/// Returns only when it fails. `may_begin`: a pipe that is closed when the ids are there.
Result<> become_first(FirstProcess const& what, int program, int may_begin) {
    char byte = 0;
    while (::read(may_begin, &byte, 1) < 0 && errno == EINTR) {
    }
    if (what.users.is_set() && ::sethostname(what.hostname.data(), what.hostname.size()) != 0)
        return fail(errno, "set the hostname of the pod");
    TRY(enter_empty_root(what.place));
    if (what.users.is_set()) TRY(become_root_inside());
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    TRY(drop_capabilities());
    char name[] = "triton-pod";
    char word[sizeof first_process_word];
    std::memcpy(word, first_process_word, sizeof word);
    std::array<char*, 3> words{name, word, nullptr};
    std::array<char*, 1> environment{nullptr};
    ::syscall(SYS_execveat, program, "", words.data(), environment.data(), AT_EMPTY_PATH);
    return fail(errno, "execute the first process of the pod");
}

}  // namespace

Result<pid_t> start_first_process(FirstProcess const& what) {
    UniqueFd const program = TRY(copy_ourselves());
    Pipe said = TRY(make_pipe());
    Pipe begin = TRY(make_pipe());
    int const users = what.users.is_set() ? CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS : 0;
    int const flags = CLONE_NEWNS | users | (what.has_pid ? CLONE_NEWPID : 0) | SIGCHLD;
    auto const pid = static_cast<pid_t>(::syscall(SYS_clone, flags, nullptr, nullptr, nullptr, 0));
    if (pid < 0) return fail(errno, "make the namespaces of the pod");
    if (pid == 0) {
        begin.writer = {};
        if (auto const became = become_first(what, program.get(), begin.reader.get()); !became)
            (void)write_all(said.writer.get(), became.error().text());
        ::_exit(127);
    }
    said.writer = {};
    if (what.users.is_set()) {
        if (auto const written = write_mapping(pid, what.users); !written) {
            ::kill(pid, SIGKILL);
            ::waitpid(pid, nullptr, 0);
            return std::unexpected(written.error());
        }
    }
    begin.writer = {};
    // What it has closed without a word was closed by its execve().
    std::string told;
    std::array<char, 1024> buffer{};
    for (ssize_t size = 0; (size = ::read(said.reader.get(), buffer.data(), buffer.size())) != 0;) {
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) break;
        told.append(buffer.data(), static_cast<std::size_t>(size));
    }
    if (told.empty()) return pid;
    ::waitpid(pid, nullptr, 0);
    return fail(ErrorKind::internal, "start the first process of the pod", told);
}

void be_first_process() {
    ::prctl(PR_SET_DUMPABLE, 0);
    ::prctl(PR_SET_NAME, "triton-pod");  // not that of the file in memory
    ::close_range(0, ~0U, 0);
    ::setsid();
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    sigset_t children;
    ::sigemptyset(&children);
    ::sigaddset(&children, SIGCHLD);
    while (true) {
        int number = 0;
        ::sigwait(&children, &number);
        while (::waitpid(-1, nullptr, WNOHANG) > 0) {
        }
    }
}

}  // namespace triton::cri::monitor
