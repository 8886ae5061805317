#include "launcher/terminal/pseudo_terminal.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

constexpr char const* device = "/dev/ptmx";

winsize kernel_size(WindowSize size) {
    return {.ws_row = size.rows, .ws_col = size.columns, .ws_xpixel = 0, .ws_ypixel = 0};
}

Result<UniqueFd> open_master() {
    // Without O_NOCTTY it would become our controlling terminal: as PID 1 we lead a session that has none.
    UniqueFd master{::open(device, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)};
    int const err = errno;
    if (master) return master;
    auto failed = fail(err, std::string("open ") + device);
    if (err == ENOENT || err == ENODEV || err == ENXIO) failed.error().reason += "; is /dev/pts mounted?";
    return failed;
}

}  // namespace

Result<PseudoTerminal> open_pseudo_terminal(WindowSize size, uid_t owner) {
    PseudoTerminal terminal{TRY(open_master()), {}};
    int const unlocked = 0;
    if (::ioctl(terminal.master.get(), TIOCSPTLCK, &unlocked) != 0) return fail(errno, "unlock a terminal");
    // Opened through the master, not by a name that may lead elsewhere.
    terminal.slave = UniqueFd{::ioctl(terminal.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)};
    int const err = errno;
    if (!terminal.slave) return fail(err, "open the other side of a terminal");
    winsize const wanted = kernel_size(size);
    (void)::ioctl(terminal.master.get(), TIOCSWINSZ, &wanted);
    if (owner != ::geteuid() && ::fchown(terminal.slave.get(), owner, static_cast<gid_t>(-1)) != 0)
        return fail(errno, "give a terminal to user " + std::to_string(owner));
    return terminal;
}

Result<> check_pseudo_terminal() {
    TRY(open_master());
    return {};
}

void show_in(int master, WindowSize size, bool is_to_be_drawn) {
    winsize wanted = kernel_size(size);
    winsize now{};
    bool const is_same =
        ::ioctl(master, TIOCGWINSZ, &now) == 0 && now.ws_row == wanted.ws_row && now.ws_col == wanted.ws_col;
    if (is_same && is_to_be_drawn) {
        // The kernel signals changes only.
        winsize other = wanted;
        other.ws_row = static_cast<unsigned short>(other.ws_row > 1 ? other.ws_row - 1 : 2);
        (void)::ioctl(master, TIOCSWINSZ, &other);
    }
    (void)::ioctl(master, TIOCSWINSZ, &wanted);
}

}  // namespace triton::launcher
