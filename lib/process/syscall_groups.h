#pragma once

#include <string_view>

namespace triton::process {

/// A named group of system calls. Members are separated by blanks; one with "@" is a group that is above.
struct SyscallGroup {
    std::string_view name;
    std::string_view members;
};

// The names are those that systemd.exec(5) has made known; what is in them is chosen for containers: nothing that
// reaches the machine is in a profile (kernel modules, keys, tracing, namespaces, io_uring, whose work no filter sees).
// Where an architecture has several forms of a call, all are listed; those that it does not have are passed over.
inline constexpr SyscallGroup syscall_groups[] = {
    // Without these nothing starts or ends.
    {"@default",
     "arch_prctl brk cacheflush clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep "
     "clock_nanosleep_time64 execve exit exit_group futex futex_time64 futex_waitv get_robust_list get_thread_area "
     "getcpu "
     "getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getpgid getpgrp getpid getppid "
     "getrandom getresgid getresgid32 getresuid getresuid32 getrlimit getsid gettid gettimeofday getuid getuid32 "
     "map_shadow_stack membarrier mmap mmap2 mprotect mseal munmap nanosleep pause prlimit64 restart_syscall "
     "riscv_flush_icache riscv_hwprobe rseq rt_sigreturn sched_getaffinity sched_yield set_robust_list set_thread_area "
     "set_tid_address set_tls sigreturn sysinfo time ugetrlimit umask uname uretprobe"},
    {"@basic-io",
     "_llseek close close_range copy_file_range dup dup2 dup3 lseek pipe pipe2 pread64 preadv preadv2 pwrite64 pwritev "
     "pwritev2 read readv sendfile sendfile64 splice tee vmsplice write writev"},
    {"@file-system",
     "access chdir chmod creat faccessat faccessat2 fadvise64 fadvise64_64 fallocate fchdir fchmod fchmodat fchmodat2 "
     "fcntl fcntl64 fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 "
     "ftruncate ftruncate64 futimesat getcwd getdents getdents64 getxattr inotify_add_watch inotify_init inotify_init1 "
     "inotify_rm_watch ioctl lgetxattr link linkat listxattr llistxattr lremovexattr lsetxattr lstat lstat64 mkdir "
     "mkdirat mknod mknodat name_to_handle_at newfstatat oldfstat oldlstat oldstat open openat openat2 readahead "
     "readlink readlinkat removexattr rename renameat renameat2 rmdir setxattr stat stat64 statfs statfs64 statx "
     "symlink "
     "symlinkat truncate truncate64 unlink unlinkat utime utimensat utimensat_time64 utimes"},
    {"@io-event",
     "_newselect epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old "
     "eventfd eventfd2 poll ppoll ppoll_time64 pselect6 pselect6_time64 select"},
    {"@memory",
     "cachestat get_mempolicy madvise memfd_create mincore mlock mlock2 mlockall mremap msync munlock munlockall "
     "process_madvise process_mrelease remap_file_pages"},
    {"@process",
     "capget clone fork getpriority getrusage ioprio_get kill personality pidfd_open pidfd_send_signal prctl execveat "
     "rt_sigqueueinfo rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getattr sched_getparam "
     "sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 setpgid setsid swapcontext tgkill times "
     "tkill "
     "vfork wait4 waitid waitpid"},
    {"@signal",
     "rt_sigaction rt_sigpending rt_sigprocmask rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 sigaction "
     "sigaltstack signal signalfd signalfd4 sigpending sigprocmask sigsuspend"},
    {"@sync", "fdatasync fsync sync sync_file_range sync_file_range2 syncfs"},
    {"@timer",
     "alarm getitimer setitimer timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime "
     "timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64"},
    // Of sockets that a process was given.
    {"@socket-io",
     "accept accept4 getpeername getsockname getsockopt recv recvfrom recvmmsg recvmmsg_time64 recvmsg send sendmmsg "
     "sendmsg sendto setsockopt shutdown"},
    {"@network-io", "@socket-io bind connect listen socket socketcall socketpair"},
    {"@network", "@network-io"},
    {"@ipc",
     "ipc mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 "
     "mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop semtimedop_time64 shmat shmctl shmdt "
     "shmget"},
    {"@resources",
     "ioprio_set mbind sched_setaffinity sched_setattr sched_setparam sched_setscheduler set_mempolicy "
     "set_mempolicy_home_node setpriority setrlimit"},
    {"@setuid",
     "capset setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32 setregid setregid32 "
     "setresgid "
     "setresgid32 setresuid setresuid32 setreuid setreuid32 setuid setuid32"},
    {"@chown", "chown chown32 fchown fchown32 fchownat lchown lchown32"},
    {"@aio", "io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit"},
    {"@pkey", "pkey_alloc pkey_free pkey_mprotect"},
    {"@sandbox", "landlock_add_rule landlock_create_ruleset landlock_restrict_self seccomp"},

    // In no profile.
    {"@io-uring", "io_uring_enter io_uring_register io_uring_setup"},
    {"@namespaces", "clone3 setns unshare"},
    {"@keyring", "add_key keyctl request_key"},
    {"@bpf", "bpf"},
    {"@debug",
     "kcmp lookup_dcookie perf_event_open pidfd_getfd process_vm_readv process_vm_writev ptrace rtas "
     "s390_runtime_instr "
     "sys_debug_setcontext userfaultfd"},
    {"@module", "delete_module finit_module init_module"},
    {"@mount",
     "chroot fsconfig fsmount fsopen fspick listmount mount mount_setattr move_mount open_tree pivot_root statmount "
     "umount "
     "umount2"},
    {"@clock", "adjtimex clock_adjtime clock_adjtime64 clock_settime clock_settime64 settimeofday stime"},
    {"@swap", "swapoff swapon"},
    {"@reboot", "kexec_file_load kexec_load reboot"},
    {"@raw-io", "ioperm iopl pciconfig_iobase pciconfig_read pciconfig_write s390_pci_mmio_read s390_pci_mmio_write"},
    {"@cpu-emulation", "modify_ldt subpage_prot switch_endian vm86 vm86old"},
    {"@obsolete",
     "_sysctl afs_syscall bdflush break create_module ftime get_kernel_syms getpmsg gtty idle lock mpx prof profil "
     "putpmsg "
     "query_module security sgetmask ssetmask stty sysfs tuxcall ulimit uselib ustat vserver"},
    {"@privileged",
     "@bpf @chown @clock @module @mount @raw-io @reboot @setuid @swap acct fanotify_init fanotify_mark move_pages "
     "migrate_pages nfsservctl open_by_handle_at quotactl quotactl_fd setdomainname sethostname syslog vhangup"},

    // The profiles.
    {"@strict", "@default @basic-io @file-system @io-event @memory @process @signal @sync @timer @socket-io @sandbox"},
    {"@system-service", "@strict @network-io @ipc @resources @setuid @chown @aio @pkey"},
};

}  // namespace triton::process
