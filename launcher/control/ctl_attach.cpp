#include "launcher/control/ctl_attach.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/write_all.h"
#include "lib/json/text.h"

namespace triton::launcher {

namespace {

constexpr std::size_t most_waiting = 64 * 1024;  // in each direction
constexpr std::size_t output_piece = 4096;       // PIPE_BUF: what poll(2) says there is room for

/// One key: a character, or ctrl- and what Ctrl makes of a letter or of one of @[\]^_.
Result<char> parse_key(std::string_view key) {
    if (key.size() == 1) return key.front();
    if (key.starts_with("ctrl-") && key.size() == 6) {
        char const c = key.back();
        if (c >= 'a' && c <= 'z') return static_cast<char>(c - 'a' + 1);
        if (c >= '@' && c <= '_') return static_cast<char>(c - '@');
    }
    return fail(json::quoted(key) + " is not a key (for example ctrl-p, ctrl-], q)");
}

int number_of(std::string_view digits) {
    int number = 0;
    (void)std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return number;
}

std::string end_text(int status) {
    return WIFSIGNALED(status) ? "was ended by signal " + std::to_string(WTERMSIG(status))
                               : "has ended with exit code " + std::to_string(WEXITSTATUS(status));
}

bool write_to_user(std::string_view text) { return static_cast<bool>(write_all(STDOUT_FILENO, text)); }

}  // namespace

Result<std::string> parse_keys(std::string_view text) {
    std::string keys;
    while (!text.empty()) {
        std::size_t const comma = text.find(',', 1);  // a comma may be a key itself
        keys += TRY(parse_key(text.substr(0, comma)));
        text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    }
    return keys;
}

bool KeySequence::take(std::string_view typed, std::string& out) {
    for (char const key : typed) {
        if (keys_.empty()) {
            out += key;
            continue;
        }
        // The keys are not the ones expected: what was held back is passed on, but for a part that may begin the
        // sequence anew.
        while (matched_ > 0 && keys_[matched_] != key) {
            std::size_t next = matched_ - 1;
            while (next > 0 && keys_.compare(0, next, keys_, matched_ - next, next) != 0)
                --next;
            out.append(keys_, 0, matched_ - next);
            matched_ = next;
        }
        if (keys_[matched_] != key) {
            out += key;
        } else if (++matched_ == keys_.size()) {
            return true;
        }
    }
    return false;
}

UserTerminal::UserTerminal(Settings settings) : settings_(std::move(settings)), keys_(settings_.detach_keys) {
    sigset_t set;
    ::sigemptyset(&set);
    for (int const signo : {SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGCONT})
        ::sigaddset(&set, signo);
    (void)::sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_ = UniqueFd{::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
    (void)::signal(SIGPIPE, SIG_IGN);
    (void)::signal(SIGTTOU, SIG_IGN);  // so that a terminal can be put back from the background, too
    is_terminal_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
    enter_raw_mode();
}

UserTerminal::~UserTerminal() { leave_raw_mode(); }

void UserTerminal::enter_raw_mode() {
    if (!is_terminal_ || settings_.is_read_only) return;
    termios raw = before_;
    ::cfmakeraw(&raw);
    is_raw_ = ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

/// Undoes what a program has switched on: it goes on without this terminal or was killed, and nobody else will.
void UserTerminal::put_screen_back() {
    if (::isatty(STDOUT_FILENO) == 1) (void)write_to_user(modes_.undo());
    modes_ = {};
}

void UserTerminal::leave_raw_mode() {
    if (std::exchange(is_raw_, false)) (void)::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

/// Leaves the terminal to whoever has stopped us. SIGCONT, which comes by signals_ then, takes it again.
void UserTerminal::stop() {
    std::string const modes = modes_.redo();
    put_screen_back();
    leave_raw_mode();
    (void)::raise(SIGSTOP);
    shown_.insert(0, modes);
}

void UserTerminal::say(std::string_view text) {
    std::string const line = (is_raw_ ? "\r\n[" : "[") + std::string(text) + (is_raw_ ? "]\r\n" : "]\n");
    (void)write_all(STDERR_FILENO, line);  // nobody else to tell
}

void UserTerminal::send_window() {
    winsize size{};
    bool const has_size =
        ::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    if (has_size && !settings_.is_read_only && size.ws_row > 0 && size.ws_col > 0)
        append_attach_frame(sent_, AttachFrame::window, window_content({size.ws_row, size.ws_col}));
}

std::optional<UserTerminal::Outcome> UserTerminal::take_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
        auto const signo = static_cast<int>(info.ssi_signo);
        switch (signo) {
            case SIGWINCH: send_window(); break;
            case SIGTSTP: stop(); break;
            case SIGCONT:
                enter_raw_mode();
                send_window();
                break;
            default: return Outcome{End::signalled, signo};
        }
    }
    return std::nullopt;
}

std::optional<UserTerminal::Outcome> UserTerminal::take_input() {
    std::array<char, longest_attach_frame> piece;
    ssize_t const size = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) return std::nullopt;
    if (size <= 0) {
        is_input_ended_ = true;
        // A terminal has gone; after the end of a pipe or a file we still wait for the output.
        return is_terminal_ ? std::optional(Outcome{End::detached}) : std::nullopt;
    }
    std::string_view const bytes{piece.data(), static_cast<std::size_t>(size)};
    if (!is_raw_) {
        append_attach_frame(sent_, AttachFrame::data, bytes);
        return std::nullopt;
    }
    std::string typed;
    bool const is_detached = keys_.take(bytes, typed);
    if (!typed.empty()) append_attach_frame(sent_, AttachFrame::data, typed);
    return is_detached ? std::optional(Outcome{End::detached}) : std::nullopt;
}

std::optional<UserTerminal::Outcome> UserTerminal::take_frame(AttachMessage const& message) {
    switch (message.what) {
        case AttachFrame::data: shown_ += message.content; return std::nullopt;
        case AttachFrame::lost:
            say(std::string(message.content) + " bytes lost: they came too fast");
            return std::nullopt;
        case AttachFrame::ended: return Outcome{End::process_ended, number_of(message.content)};
        case AttachFrame::started:
            say(settings_.name + " has started");
            send_window();
            return std::nullopt;
        case AttachFrame::upgrade: return Outcome{End::upgraded};
        case AttachFrame::over: return Outcome{End::over, 0, std::string(message.content)};
        case AttachFrame::window: break;  // clients never receive it
    }
    return std::nullopt;  // a frame that only a later version knows
}

std::optional<UserTerminal::Outcome> UserTerminal::take_frames(bool is_at_end) {
    std::optional<Outcome> outcome;
    std::size_t taken = 0;
    for (AttachMessage message; !outcome && !ended_;) {
        AttachReading const read = read_attach_frame(std::string_view(received_).substr(taken), message);
        if (read == AttachReading::wrong) return Outcome{End::closed};
        if (read == AttachReading::partial) break;
        taken += message.size;
        outcome = take_frame(message);
        if (outcome && outcome->end == End::process_ended && settings_.follows) {
            ended_ = outcome->status;
            outcome.reset();
        }
    }
    received_.erase(0, taken);
    if (!outcome && !ended_ && is_at_end) outcome = Outcome{End::closed};
    return outcome;
}

/// Once all is shown that the process has written before its end: says that it has ended, and goes on with what came
/// afterwards.
std::optional<UserTerminal::Outcome> UserTerminal::follow(bool is_at_end) {
    std::optional<Outcome> outcome;
    while (!outcome && ended_ && shown_.empty()) {
        put_screen_back();
        say(settings_.name + " " + end_text(*std::exchange(ended_, std::nullopt)) + "; waiting for its next start");
        outcome = take_frames(is_at_end);
    }
    return outcome;
}

/// Returns whether there is still somebody to show the output to.
bool UserTerminal::show() {
    ssize_t const size = ::write(STDOUT_FILENO, shown_.data(), std::min(shown_.size(), output_piece));
    if (size < 0) return errno == EINTR || errno == EAGAIN;
    modes_.sent(std::string_view(shown_).substr(0, static_cast<std::size_t>(size)));
    shown_.erase(0, static_cast<std::size_t>(size));
    return true;
}

UserTerminal::Outcome UserTerminal::run(UniqueFd connection, std::string received) {
    Outcome outcome = join(std::move(connection), std::move(received));
    put_screen_back();  // before anything is said; and another version of the launcher tells anew what is switched
    return outcome;
}

UserTerminal::Outcome UserTerminal::join(UniqueFd connection, std::string received) {
    connection_ = std::move(connection);
    received_ = std::move(received);
    sent_.clear();
    ended_.reset();
    (void)::fcntl(connection_.get(), F_SETFL, O_NONBLOCK);
    send_window();
    bool is_closed = false;
    std::optional<Outcome> outcome = take_frames(false);
    if (!outcome) outcome = follow(false);
    while (!outcome || !shown_.empty()) {
        short const from = !outcome && !is_closed && !ended_ && shown_.size() < most_waiting ? POLLIN : 0;
        short const to = !outcome && !sent_.empty() ? POLLOUT : 0;
        bool const reads = !outcome && !is_input_ended_ && !settings_.is_read_only && sent_.size() < most_waiting;
        std::array<pollfd, 4> ready{{{signals_.get(), POLLIN, 0},
                                     {from != 0 || to != 0 ? connection_.get() : -1, static_cast<short>(from | to), 0},
                                     {reads ? STDIN_FILENO : -1, POLLIN, 0},
                                     {shown_.empty() ? -1 : STDOUT_FILENO, POLLOUT, 0}}};
        int timeout = -1;
        if (settings_.deadline) {
            auto const left = std::chrono::ceil<milliseconds>(*settings_.deadline - std::chrono::steady_clock::now());
            timeout = static_cast<int>(std::clamp<milliseconds::rep>(left.count(), 0, std::numeric_limits<int>::max()));
        }
        int const count = ::poll(ready.data(), ready.size(), timeout);
        if (count == 0) return {End::timed_out};
        if (count < 0) continue;
        if (ready[0].revents != 0)
            if (auto const ended = take_signals()) return *ended;
        if (ready[3].revents != 0 && !show()) return {End::detached};
        if ((ready[1].revents & POLLOUT) != 0) {
            ssize_t const size = ::send(connection_.get(), sent_.data(), sent_.size(), MSG_NOSIGNAL);
            if (size > 0) sent_.erase(0, static_cast<std::size_t>(size));
        }
        if ((ready[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
            std::array<char, longest_attach_frame> piece;
            ssize_t const size = ::recv(connection_.get(), piece.data(), piece.size(), 0);
            bool const is_nothing = size < 0 && (errno == EAGAIN || errno == EINTR);
            if (size > 0) received_.append(piece.data(), static_cast<std::size_t>(size));
            is_closed = size <= 0 && !is_nothing;
            if (!outcome) outcome = take_frames(is_closed);
        }
        if (ready[2].revents != 0 && !outcome)
            if (auto const ended = take_input()) {
                flush_typed();
                outcome = ended;
            }
        if (!outcome) outcome = follow(is_closed);
    }
    return *outcome;
}

/// Sends what was typed before the keys that end the session.
void UserTerminal::flush_typed() {
    if (!sent_.empty()) (void)::send(connection_.get(), sent_.data(), sent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace triton::launcher
