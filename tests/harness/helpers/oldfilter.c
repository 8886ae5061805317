/// Runs a command as a container runtime of 2019 does: a filter answers each system call that is newer than statx(2),
/// and that one, with an error. Usage: oldfilter ERRNO COMMAND...

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char** argv) {
    if (argc < 3) return 99;
    // The first new one: 332 on x86-64, where rseq(2) follows, and 291 where the generic numbers are used.
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, SYS_statx, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)atoi(argv[1])),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog const program = {sizeof steps / sizeof *steps, steps};
    // Runtimes do not set no_new_privs unless they are asked to. Who is not root must.
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 &&
        (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)) {
        perror("oldfilter");
        return 99;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 99;
}
