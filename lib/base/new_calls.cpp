#include "lib/base/new_calls.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace triton {

namespace {

// One number on all architectures, and not in the headers of Debian 11.
constexpr long faccessat2_call = 439;

struct HostCall {
    char const* name;
    NeededCalls needed_by;
    bool (*is_missing)();
};

/// Returns whether a call is missing, from its result for arguments that are invalid before anything else is checked.
bool is_refused(long result) { return result < 0 && is_missing_call(errno); }

constexpr unsigned invalid_flags = ~0U;
constexpr std::array host_calls{
    HostCall{"pidfd_open", NeededCalls::files, [] { return is_refused(::syscall(SYS_pidfd_open, 0, invalid_flags)); }},
    HostCall{"close_range", NeededCalls::files, [] { return is_refused(::syscall(SYS_close_range, 1U, 0U, 0U)); }},
    HostCall{"openat2", NeededCalls::files, [] { return is_refused(::syscall(SYS_openat2, -1, nullptr, nullptr, 0)); }},
    HostCall{"open_tree", NeededCalls::files_and_mounts,
             [] { return is_refused(::syscall(SYS_open_tree, -1, nullptr, invalid_flags)); }},
    HostCall{"mount_setattr", NeededCalls::files_and_mounts,
             [] { return is_refused(::syscall(SYS_mount_setattr, -1, nullptr, invalid_flags, nullptr, 0)); }},
};

}  // namespace

bool is_missing_call(int err) { return err == ENOSYS || err == EPERM; }

int check_access(int directory, char const* path, int mode) {
    int const result = static_cast<int>(::syscall(faccessat2_call, directory, path, mode, AT_EACCESS));
    if (result == 0 || !is_missing_call(errno)) return result;
    // libc's faccessat() makes the newer call, even without flags.
    return static_cast<int>(::syscall(SYS_faccessat, directory, path, mode));
}

bool entry_exists(int directory, char const* name) {
    struct stat status;
    return ::fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

int signal_child(int pidfd, pid_t pid, int signal) {
    int const result = static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
    if (result == 0 || !is_missing_call(errno)) return result;
    return ::kill(pid, signal);
}

Result<> let_libc_clone() {
    // A size that is too small. Errors other than EPERM are for libc, which knows them.
    if (::syscall(SYS_clone3, nullptr, 0) >= 0 || errno != EPERM) return {};
    // clone3 has this number on all architectures, so the filter need not check which one makes the call.
    std::array<sock_filter, 4> steps{{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    sock_fprog const program{steps.size(), steps.data()};
    auto const install = [&program] { return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0; };
    if (install()) return {};
    int err = errno;
    if (err == EACCES && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && install()) return {};
    err = err == EACCES ? errno : err;
    return fail(ErrorKind::unsupported, "make threads",
                "a filter answers clone3 with EPERM, and one that answers ENOSYS cannot be added: " + errno_text(err));
}

Result<> prepare_host_program(NeededCalls needed) {
    for (HostCall const& call : host_calls)
        if (call.needed_by <= needed && call.is_missing())
            return fail(ErrorKind::unsupported, std::string("use the system call ") + call.name,
                        errno_text(errno) +
                            ": the kernel is older than Linux 5.12, or a seccomp filter (of a container "
                            "runtime before 2021) does not know the call");
    return let_libc_clone();
}

}  // namespace triton
