#include "programs/vmadm/terminal.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/major.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <termios.h>
#include <unistd.h>

#include "lib/base/write_all.h"

namespace triton::program {

namespace {

/// Our terminal, in a mode that passes each key on unchanged. The destructor restores it. Others that write lines to it
/// meanwhile need what it makes of their ends; what we show has them made already, and that again is the same.
class RawTerminal {
public:
    explicit RawTerminal(bool is_alone) {
        is_terminal_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
        if (!is_terminal_) return;
        termios raw = before_;
        ::cfmakeraw(&raw);
        if (!is_alone) raw.c_oflag = before_.c_oflag;
        ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    RawTerminal(RawTerminal const&) = delete;
    RawTerminal& operator=(RawTerminal const&) = delete;
    ~RawTerminal() {
        // at once: output that the machine has yet to show must not be waited for
        if (is_terminal_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    }

private:
    bool is_terminal_ = false;
    termios before_{};
};

/// The signals that would leave our terminal in a bad state, as a descriptor. They stay blocked until the destructor
/// runs.
class Signals {
public:
    Signals() {
        sigset_t signals;
        ::sigemptyset(&signals);
        for (int const signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH})
            ::sigaddset(&signals, signal);
        ::sigprocmask(SIG_BLOCK, &signals, &before_);
        file_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    }
    Signals(Signals const&) = delete;
    Signals& operator=(Signals const&) = delete;
    ~Signals() {
        while (next() != 0) {
        }
        ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    }
    [[nodiscard]] int file() const { return file_.get(); }
    /// Returns the next signal; 0 when there is none.
    [[nodiscard]] int next() const {
        signalfd_siginfo signal{};
        bool const is_there = ::read(file_.get(), &signal, sizeof signal) == sizeof signal;
        return is_there ? static_cast<int>(signal.ssi_signo) : 0;
    }

private:
    sigset_t before_{};
    UniqueFd file_;
};

/// The minor number of /dev/ptmx. Source: Linux Documentation/admin-guide/devices.txt.
constexpr unsigned ptmx_minor = 2;

/// Typed text that the machine has not taken. The machine decides when it takes it; what does not fit is lost, as on
/// any terminal.
class Typed {
public:
    [[nodiscard]] bool is_empty() const { return waiting_.empty(); }
    void add(std::string_view keys) { waiting_ += keys.substr(0, most - waiting_.size()); }
    /// Writes as much as is taken now.
    void write_to(int file) {
        if (waiting_.empty()) return;
        ssize_t const taken = ::write(file, waiting_.data(), waiting_.size());
        if (taken > 0) waiting_.erase(0, static_cast<std::size_t>(taken));
    }

private:
    static constexpr std::size_t most = 64 << 10;
    std::string waiting_;
};

using Buffer = std::array<char, 4096>;

/// Reads what is there, as far as it fits; nullopt: the end.
std::optional<std::string_view> read_some(int file, Buffer& buffer) {
    ssize_t const got = ::read(file, buffer.data(), buffer.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return std::string_view();
    if (got <= 0) return std::nullopt;  // EIO: the other end of the terminal is closed
    return std::string_view(buffer.data(), static_cast<std::size_t>(got));
}

/// Shows what is there now. Processes that the program has left behind may write for ever; what it has written itself
/// is less than this.
void show_rest(int shown, int other) {
    constexpr int most_pieces = 64;
    Buffer buffer;
    for (int pieces = 0; pieces < most_pieces; ++pieces) {
        auto const rest = read_some(other, buffer);
        if (!rest || rest->empty() || !write_all(shown, *rest)) return;
    }
}

}  // namespace

std::optional<Terminal> make_terminal() {
    Terminal terminal;
    // The machine decides what this name leads to: nothing here waits, and the other side checks what it gets.
    terminal.ours = UniqueFd(::open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
    if (!terminal.ours || ::unlockpt(terminal.ours.get()) != 0) return std::nullopt;
    terminal.theirs = UniqueFd(::ioctl(terminal.ours.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!terminal.theirs) return std::nullopt;
    return terminal;
}

bool is_terminal(int ours) {
    struct stat status{};
    struct statfs system{};
    bool const is_known = ::fstat(ours, &status) == 0 && ::fstatfs(ours, &system) == 0;
    return is_known && S_ISCHR(status.st_mode) && ::major(status.st_rdev) == TTYAUX_MAJOR &&
           ::minor(status.st_rdev) == ptmx_minor && system.f_type == DEVPTS_SUPER_MAGIC;
}

StandardFiles own_terminals() {
    return {::isatty(STDIN_FILENO) == 1, ::isatty(STDOUT_FILENO) == 1, ::isatty(STDERR_FILENO) == 1};
}

void copy_size(OwnTerminal const& own, int other) {
    winsize size{};
    if (::ioctl(own.shown, TIOCGWINSZ, &size) == 0) ::ioctl(other, TIOCSWINSZ, &size);
}

RelayEnd relay_terminal(OwnTerminal const& own, int other, int running, std::optional<char> escape) {
    Signals const signals;
    RawTerminal const raw(own.is_alone);
    Buffer buffer;
    Typed typed;
    int const typed_at = own.is_typed_at ? STDIN_FILENO : -1;
    std::array<pollfd, 4> files{
        {{typed_at, POLLIN, 0}, {other, POLLIN, 0}, {signals.file(), POLLIN, 0}, {running, POLLIN, 0}}};
    for (;;) {
        files[1].events = static_cast<short>(typed.is_empty() ? POLLIN : POLLIN | POLLOUT);
        if (::poll(files.data(), files.size(), -1) < 0 && errno != EINTR) return {};
        if (files[2].revents) {
            int const signal = signals.next();
            if (signal == SIGWINCH)
                copy_size(own, other);
            else if (signal != 0 && signal != SIGTSTP)
                return {Relayed::killed, signal};
        }
        if (files[3].revents) {
            show_rest(own.shown, other);
            return {};
        }
        if (files[1].revents & (POLLIN | POLLHUP | POLLERR)) {
            auto const shown = read_some(other, buffer);
            if (!shown) return {};
            // An echo that cannot be shown, where standard input is open for reading only, is no reason to end.
            if (!write_all(own.shown, *shown) && own.shown != STDIN_FILENO) return {};
        }
        if (files[0].revents) {
            auto const keys = read_some(STDIN_FILENO, buffer);
            if (!keys) files[0].fd = -1;
            std::size_t const end = keys && escape ? keys->find(*escape) : std::string_view::npos;
            if (keys) typed.add(keys->substr(0, end));
            typed.write_to(other);
            if (end != std::string_view::npos) return {Relayed::left};
        } else {
            typed.write_to(other);
        }
    }
}

}  // namespace triton::program
