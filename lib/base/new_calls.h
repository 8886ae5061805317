#pragma once

#include <sys/types.h>

#include "lib/base/result.h"

namespace triton {

/// System calls that a container runtime of 2021 does not know. Its seccomp filter refuses them with EPERM instead of
/// ENOSYS (Docker before 20.10.10, containerd before 1.5.8), and libc uses its older way after ENOSYS only. Every call
/// of these programs that Linux 4.11 or later brought (number 332 and up on x86-64) has its fallback here, or beside
/// its only caller, which then accepts any error or asks is_missing_call().

/// Whether an error can mean that the kernel, or the filter of the runtime, does not know the call.
[[nodiscard]] bool is_missing_call(int err);

/// Checks access with the effective ids, as faccessat(2) with AT_EACCESS. Returns 0, or -1 with errno. Where
/// faccessat2(2) is missing, the real ids are checked, which differ only in set-user-ID programs, and without the
/// capabilities of a user who is not root.
[[nodiscard]] int check_access(int directory, char const* path, int mode);

/// Whether there is such an entry, even a symbolic link that leads nowhere. False with errno when it is not known.
[[nodiscard]] bool entry_exists(int directory, char const* name);

/// Signals a child that was not reaped, by its pidfd, or by its pid where pidfd_send_signal(2) is missing. Returns 0,
/// or -1 with errno.
int signal_child(int pidfd, pid_t pid, int signal);

/// Lets libc make threads and spawn processes where a filter answers clone3(2) with EPERM: one more filter answers it
/// with ENOSYS, and the kernel takes the answer of the filter that was installed last. Does nothing elsewhere. It is
/// called before the first thread. It sets no_new_privs where the process has no CAP_SYS_ADMIN, and both are inherited.
/// Errors: those of seccomp(2). Source: seccomp(2), "if multiple filters exist".
Result<> let_libc_clone();

/// Which of these calls a program of the host cannot do without.
enum class NeededCalls : bool {
    files,             // confined paths, processes
    files_and_mounts,  // those of sandboxed workers and machines, too
};

/// Prepares a program of the host. Errors: `unsupported`, which names the first call that is missing, and those of
/// let_libc_clone().
Result<> prepare_host_program(NeededCalls needed);

}  // namespace triton
