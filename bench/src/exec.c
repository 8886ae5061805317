// Becomes the program of the macro ARGV with its arguments: the `run` of a service that needs some, without a shell.
#include "raw.h"

static char const* const command[] = {ARGV, 0};

__attribute__((noreturn, used)) void run(long* stack) {
    char** const environment = (char**)(stack + 1) + stack[0] + 1;
    raw(SYS_execve, (long)command[0], (long)command, (long)environment, 0, 0, 0);
    leave(127);
}

ENTRY(run)
