// The shared memory through which children tell the harness when they ran: a file on tmpfs that both sides map.
// A child appends one record and wakes the harness only when the record is the one being waited for, so that
// the harness does not compete for the processor while a supervisor works.
#pragma once

struct Record {
    long long ns;  // CLOCK_MONOTONIC
    int pid;
    int unused;
};

struct Area {
    unsigned count;    // records taken so far
    unsigned wake_at;  // the count at which the harness wants to be woken; a futex on count
    unsigned capacity;
    unsigned unused[13];
    struct Record records[];
};
