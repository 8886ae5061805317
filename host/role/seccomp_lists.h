#pragma once

#include <string_view>

namespace triton::role {

// The system calls of a confined role: names separated by blanks. Any other call kills it. Calls with a condition on
// their arguments are in sandbox.cpp: clone (threads only), mmap and mprotect (nothing executable), ioctl, fcntl,
// mknodat, socket.
//
// memfd_create and fallocate are in no list: their memory and blocks are counted by none of a role's limits.

/// For memory, threads, time, the channel, and the end.
inline constexpr std::string_view common_calls =
    "read readv write writev pread64 preadv pwrite64 pwritev close close_range fstat newfstatat statx lseek munmap "
    "mremap "
    "brk "
    "madvise futex rt_sigprocmask rt_sigreturn rt_sigaction sigaltstack sendmsg recvmsg poll ppoll exit exit_group "
    "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time getrandom sched_yield sched_getaffinity "
    "set_robust_list rseq getpid gettid membarrier restart_syscall";

inline constexpr std::string_view verify_calls = "fsync fdatasync sync_file_range copy_file_range fadvise64 ftruncate";

inline constexpr std::string_view unpack_calls =
    "openat2 mkdirat unlinkat symlinkat linkat fchown fchownat fchmod fchmodat utimensat fsetxattr fgetxattr "
    "flistxattr "
    "fremovexattr getdents64 readlinkat fadvise64 sync_file_range ftruncate fstatfs umask";

/// To accept from the socket that it was given, and to wait. It makes none itself.
inline constexpr std::string_view stream_calls =
    "accept4 shutdown getsockopt setsockopt epoll_ctl epoll_wait epoll_pwait";

/// For a program that reads files and writes to descriptors: to start and to work. It starts no other program.
inline constexpr std::string_view executed_calls =
    "execve dup2 openat access readlink arch_prctl set_tid_address getrusage dup mmap mprotect getuid geteuid getgid "
    "getegid uname sysinfo fcntl";

/// For qemu-img and xorriso, besides, in triton-unpack's sandbox.
inline constexpr std::string_view produce_calls =
    "getppid eventfd2 epoll_create1 epoll_ctl epoll_wait epoll_pwait signalfd4 truncate ftruncate fdatasync fsync "
    "getdents64 "
    "get_mempolicy set_mempolicy open stat lstat fstatfs "
    "statfs "
    "umask getcwd chdir readlinkat faccessat faccessat2 pipe2 fadvise64 sync_file_range";

/// For the network, and for what libcurl, OpenSSL and libc's resolver do besides.
inline constexpr std::string_view download_calls =
    "connect bind getsockname getpeername getsockopt setsockopt sendto recvfrom sendmmsg recvmmsg shutdown "
    "socketpair epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd2 pipe2 open openat access faccessat faccessat2 "
    "readlink readlinkat stat lstat getdents64 getuid geteuid getgid getegid getrusage uname sysinfo select pselect6 "
    "getppid dup getcwd";

/// For the sanitizers' runtime and its reports. Not in released programs.
inline constexpr std::string_view sanitizer_calls =
    "openat readlink getrlimit pipe2 prlimit64 prctl sched_getaffinity tgkill getppid";

}  // namespace triton::role
