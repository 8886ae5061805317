#pragma once

#include <cstdint>

#include <sys/types.h>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::launcher {

struct WindowSize {
    std::uint16_t rows = 24;
    std::uint16_t columns = 80;

    bool operator==(WindowSize const&) const = default;
};

/// Both ends of a terminal that no session has yet. The master does not block. Close-on-exec.
struct PseudoTerminal {
    UniqueFd master;
    UniqueFd slave;
};

/// Opens one of that size. `owner`: whose the slave becomes; its group and mode are what the mount of /dev/pts says.
/// Errors: those of open(2) for /dev/ptmx and of ptmx(4), among them ENOSPC when kernel.pty.max are in use.
Result<PseudoTerminal> open_pseudo_terminal(WindowSize size, uid_t owner);

/// Whether there is one to be had.
Result<> check_pseudo_terminal();

/// Tells the program that it is shown in a window of that size: also when it is of that size already, since who looks
/// at it anew wants to have it drawn. Source: tty_ioctl(4), TIOCSWINSZ.
void show_in(int master, WindowSize size, bool is_to_be_drawn);

}  // namespace triton::launcher
