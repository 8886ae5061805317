// Runs a program to its end, instruction by instruction, and writes where it has been, in the order of the first time.
//   trace OUTPUT PROGRAM [ARGUMENT...]
// A line of OUTPUT is an offset from the beginning of the program's file in memory, in hexadecimal, a multiple of 16.
// For x86-64.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { most_bytes = 1 << 26, step = 16 };

static unsigned long base_of(pid_t pid, char const* program) {
    char line[4096], path[64];
    unsigned long base = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE* const maps = fopen(path, "r");
    while (maps && !base && fgets(line, sizeof line, maps)) {
        if (strstr(line, program)) base = strtoul(line, NULL, 16);
    }
    if (maps) fclose(maps);
    return base;
}

int main(int argc, char** argv) {
    static char seen[most_bytes / step];
    if (argc < 3) return 2;
    FILE* const output = fopen(argv[1], "w");
    pid_t const pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execv(argv[2], argv + 2);
        _exit(127);
    }
    int status = 0;
    if (!output || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return 1;
    ptrace(PTRACE_SETOPTIONS, pid, NULL, (void*)(long)PTRACE_O_EXITKILL);  // whoever ends us ends the program
    unsigned long const base = base_of(pid, argv[2]);
    while (base && WIFSTOPPED(status)) {
        struct user_regs_struct registers;
        if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) < 0) break;
        unsigned long const place = (registers.rip - base) / step;
        if (place < sizeof seen && !seen[place]) {
            seen[place] = 1;
            fprintf(output, "%lx\n", place * step);
        }
        int const signo = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, (void*)(long)signo) < 0 || waitpid(pid, &status, __WALL) < 0) break;
    }
    return fclose(output) == 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
