#include "launcher/terminal/attachments.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/process/quarantine.h"

namespace triton::launcher {

namespace {

constexpr std::size_t input_piece = longest_attach_frame;  // of one client, in one round
constexpr std::size_t worth_moving = 64 * 1024;            // written output that is cut off the front

bool has_hung_up(int fd) {
    pollfd state{.fd = fd, .events = 0, .revents = 0};
    return ::poll(&state, 1, 0) == 1 && (state.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace

/// One client. Its two directions are watched apart, so that a client that does not read can still type ^C.
struct Attachments::Seat {
    UniqueFd fd;
    UniqueFd out;  // the same, for the second watch
    bool may_write = true;
    bool follows = false;
    bool is_leaving = false;   // ends when it has taken its output
    bool is_given_up = false;  // nobody waits for it until it has taken all that waits
    std::optional<WindowSize> window;
    EventLoop::Watch readable;
    EventLoop::Watch writable;
    std::string input;  // an incomplete frame
    std::string typed;  // what the terminal has not taken; meanwhile nothing more is read
    std::string output;
    std::size_t written = 0;  // of it
    std::uint64_t lost = 0;   // bytes
    TimePoint progress_at{};

    [[nodiscard]] std::size_t pending() const { return output.size() - written; }
};

/// One terminal with its clients.
struct Attachments::Line {
    int master = -1;
    UniqueFd again;             // the same master, duplicated to be watched separately
    EventLoop::Watch writable;  // while something waits to be typed
    std::vector<std::unique_ptr<Seat>> seats;
};

Attachments::Attachments(EventLoop& loop, Callbacks callbacks, AttachLimits const& limits)
    : loop_(loop),
      callbacks_(std::move(callbacks)),
      limits_(limits),
      timer_(loop, [this] { time_passed(); }),
      room_timer_(loop, [this] { callbacks_.has_room(); }) {}

Attachments::~Attachments() {
    each([this](Line&, Seat& seat) { end(seat); });
}

template <class Act>
void Attachments::each(Act const& act) const {
    for (auto const& [key, line] : lines_) {
        for (auto const& seat : line->seats)
            act(*line, *seat);
    }
}

/// Wraps every entry from outside: clients that have gone are removed when nobody works with one any more.
template <class Act>
void Attachments::enter(Act const& act) {
    ++depth_;
    act();
    if (--depth_ > 0) return;
    for (auto at = lines_.begin(); at != lines_.end();) {
        std::erase_if(at->second->seats, [](auto const& seat) { return !seat->fd; });
        at = at->second->seats.empty() ? lines_.erase(at) : std::next(at);
    }
    arm();
}

// Who is there.

bool Attachments::make_place() {
    std::size_t count = 0;
    Seat* slowest = nullptr;
    each([&](Line&, Seat& seat) {
        if (has_hung_up(seat.fd.get())) return end(seat);
        ++count;
        bool const is_slower = seat.pending() > 0 && (!slowest || seat.progress_at < slowest->progress_at);
        if (is_slower) slowest = &seat;
    });
    bool const is_too_many = count >= limits_.clients;
    bool const makes_way = is_too_many && slowest && slowest->progress_at + limits_.replaceable <= loop_.now();
    if (makes_way) end(*slowest);
    enter([] {});
    return !is_too_many || makes_way;
}

void Attachments::add(TerminalKey key, int master, Client client, std::string_view before) {
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<char[]>(input_piece);
    auto seat = std::make_unique<Seat>();
    seat->fd = std::move(client.connection);
    seat->may_write = client.may_write;
    seat->follows = client.follows;
    auto& line = lines_[key];
    if (!line) line = std::make_unique<Line>();
    line->master = master;
    Seat& added = *line->seats.emplace_back(std::move(seat));
    enter([&] {
        listen(*line, added);
        show(added, before);
    });
}

bool Attachments::has(TerminalKey key) const { return lines_.contains(key); }

void Attachments::end(Seat& seat) {
    if (!seat.fd) return;
    if (is_waited_for(seat)) room_timer_.arm(loop_.now());
    seat.readable = {};
    seat.writable = {};
    seat.out = {};
    seat.output.clear();
    seat.written = 0;
    seat.typed.clear();
    callbacks_.close(std::move(seat.fd));
    seat.fd = {};
}

/// Sends news, for which there is always room; a client that takes none of them is given up.
void Attachments::tell(Seat& seat, AttachFrame what, std::string_view content) {
    if (!seat.fd || seat.is_leaving) return;
    if (seat.pending() > limits_.output_bytes + longest_attach_frame) return end(seat);
    if (seat.pending() == 0) seat.progress_at = loop_.now();
    if (seat.lost > 0) append_attach_frame(seat.output, AttachFrame::lost, std::to_string(std::exchange(seat.lost, 0)));
    append_attach_frame(seat.output, what, content);
    flush(seat);
}

/// Sends the last frame. What the client has not taken yet comes before it.
void Attachments::leave(Seat& seat, AttachFrame what, std::string_view content) {
    tell(seat, what, content);
    seat.typed.clear();
    seat.is_leaving = true;
    if (seat.pending() == 0) end(seat);
}

// What a program shows.

/// Whether a program has to wait for a client: when more than half of what may wait is waiting.
bool Attachments::is_waited_for(Seat const& seat) const {
    return seat.fd && !seat.is_leaving && !seat.is_given_up && seat.pending() > limits_.output_bytes / 2;
}

bool Attachments::is_behind(TerminalKey key) const {
    auto const line = lines_.find(key);
    return line != lines_.end() &&
           std::ranges::any_of(line->second->seats, [this](auto const& seat) { return is_waited_for(*seat); });
}

void Attachments::written(TerminalKey key, std::string_view bytes) {
    auto const line = lines_.find(key);
    if (line == lines_.end()) return;
    enter([&] {
        for (auto const& seat : line->second->seats) {
            if (!seat->is_leaving) show(*seat, bytes);
        }
    });
}

void Attachments::show(Seat& seat, std::string_view bytes) {
    if (!seat.fd || bytes.empty()) return;
    if (seat.pending() == 0) seat.progress_at = loop_.now();
    if (seat.lost > 0 || seat.pending() + bytes.size() > limits_.output_bytes) {
        seat.lost += bytes.size();
        return;
    }
    append_attach_frame(seat.output, AttachFrame::data, bytes);
    if (!seat.writable) flush(seat);
}

/// Sends what the client takes, and waits for it if something is left.
void Attachments::flush(Seat& seat) {
    if (!seat.fd) return;
    bool const was_waited_for = is_waited_for(seat);
    while (seat.pending() > 0) {
        ssize_t const size =
            ::send(seat.fd.get(), seat.output.data() + seat.written, seat.pending(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && (errno == EAGAIN || errno == ENOBUFS)) break;
        if (size < 0) return end(seat);
        seat.written += static_cast<std::size_t>(size);
        seat.progress_at = loop_.now();
    }
    if (seat.pending() == 0 || seat.written >= worth_moving) {
        seat.output.erase(0, std::exchange(seat.written, 0));
        if (seat.output.empty() && seat.output.capacity() > worth_moving) std::string().swap(seat.output);
    }
    if (seat.pending() == 0) {
        seat.writable = {};
        seat.is_given_up = false;
        if (seat.is_leaving) return end(seat);
        if (seat.lost > 0) {
            append_attach_frame(seat.output, AttachFrame::lost, std::to_string(std::exchange(seat.lost, 0)));
            return flush(seat);
        }
    } else if (!seat.writable) {
        if (!seat.out) seat.out = UniqueFd{::fcntl(seat.fd.get(), F_DUPFD_CLOEXEC, 0)};
        auto watch = loop_.on_writable(seat.out.get(), [this, &seat] { enter([&] { flush(seat); }); });
        if (!watch) return end(seat);  // no more descriptors, or no memory in the kernel
        seat.writable = std::move(*watch);
    }
    if (was_waited_for && !is_waited_for(seat)) room_timer_.arm(loop_.now());
}

// What a client types.

void Attachments::listen(Line& line, Seat& seat) {
    if (!seat.fd || seat.readable || !seat.typed.empty()) return;
    auto watch = loop_.on_readable(seat.fd.get(), [this, &line, &seat] { enter([&] { hear(line, seat); }); });
    if (!watch) return end(seat);
    seat.readable = std::move(*watch);
}

/// Reads one piece a round. Text from many small frames is typed at once, and of several sizes the last one counts.
void Attachments::hear(Line& line, Seat& seat) {
    std::span<char> const piece{buffer_.get(), input_piece};
    process::Peeked const front = process::peek(seat.fd.get(), piece);
    if (front.state == process::Peeked::State::nothing) return;
    if (front.state == process::Peeked::State::broken || front.has_descriptors || front.size == 0) return end(seat);
    process::take(seat.fd.get(), piece.first(front.size));
    seat.input.append(piece.data(), front.size);
    std::optional<WindowSize> window;
    std::size_t taken = 0;
    for (AttachMessage message;;) {
        AttachReading const read = read_attach_frame(std::string_view(seat.input).substr(taken), message);
        if (read == AttachReading::wrong) return end(seat);
        if (read == AttachReading::partial) break;
        taken += message.size;
        if (!seat.may_write || seat.is_leaving) continue;  // the next process may have its terminal already
        if (message.what == AttachFrame::data) seat.typed += message.content;
        if (message.what == AttachFrame::window) window = read_window(message.content);
    }
    seat.input.erase(0, taken);
    // One that says the same again has been away, as after a stop by SIGTSTP.
    if (window && line.master >= 0) show_in(line.master, *window, !seat.window || seat.window == window);
    if (window) seat.window = window;
    pass_on(line, seat);
}

/// Gives the terminal what was typed, as far as it takes that; without a terminal it is lost.
void Attachments::pass_on(Line& line, Seat& seat) {
    while (line.master >= 0 && !seat.typed.empty()) {
        ssize_t const size = ::write(line.master, seat.typed.data(), seat.typed.size());
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) break;
        seat.typed.erase(0, size < 0 ? std::string::npos : static_cast<std::size_t>(size));
    }
    if (line.master < 0) seat.typed.clear();
    if (seat.typed.empty()) {
        seat.typed.shrink_to_fit();
        return listen(line, seat);
    }
    seat.readable = {};
    await_terminal(line);
}

void Attachments::await_terminal(Line& line) {
    if (line.writable) return;
    line.again = UniqueFd{::fcntl(line.master, F_DUPFD_CLOEXEC, 0)};
    auto watch = loop_.on_writable(line.again.get(), [this, &line] {
        enter([&] {
            line.writable = {};
            for (auto const& seat : line.seats)
                if (!seat->typed.empty()) pass_on(line, *seat);
        });
    });
    if (watch) {
        line.writable = std::move(*watch);
        return;
    }
    for (auto const& seat : line.seats) {  // nobody may hang because the terminal cannot be waited for
        seat->typed.clear();
        listen(line, *seat);
    }
}

// What becomes of processes.

void Attachments::opened(TerminalKey key, int master) {
    auto const line = lines_.find(key);
    if (line == lines_.end()) return;
    enter([&] {
        line->second->master = master;
        for (auto const& seat : line->second->seats) {
            seat->window.reset();
            tell(*seat, AttachFrame::started, {});
        }
    });
}

void Attachments::ended(TerminalKey key, int status) {
    auto const line = lines_.find(key);
    if (line == lines_.end()) return;
    enter([&] {
        Line& its = *line->second;
        its.master = -1;
        its.writable = {};
        its.again = {};
        for (auto const& seat : its.seats) {
            seat->typed.clear();
            if (seat->follows) {
                tell(*seat, AttachFrame::ended, std::to_string(status));
                listen(its, *seat);
            } else {
                leave(*seat, AttachFrame::ended, std::to_string(status));
            }
        }
    });
}

void Attachments::removed(TerminalKey key) {
    auto const line = lines_.find(key);
    if (line == lines_.end()) return;
    enter([&] {
        line->second->master = -1;
        line->second->writable = {};
        line->second->again = {};
        for (auto const& seat : line->second->seats)
            leave(*seat, AttachFrame::over, "the configuration has no such process any more");
    });
}

void Attachments::forget(std::uint32_t program) {
    std::vector<TerminalKey> keys;
    for (auto const& [key, line] : lines_)
        if (key.program == program) keys.push_back(key);
    for (TerminalKey const& key : keys)
        removed(key);
}

void Attachments::upgrading() {
    enter([&] {
        each([this](Line&, Seat& seat) {
            leave(seat, AttachFrame::upgrade, {});
            end(seat);
        });
    });
}

// When somebody takes nothing.

void Attachments::time_passed() {
    enter([&] {
        each([this](Line&, Seat& seat) {
            if (seat.is_leaving && seat.progress_at + limits_.replaceable <= loop_.now()) return end(seat);
            if (!is_waited_for(seat) || seat.progress_at + limits_.patience > loop_.now()) return;
            seat.is_given_up = true;
            room_timer_.arm(loop_.now());
        });
    });
}

void Attachments::arm() {
    std::optional<TimePoint> next;
    auto const consider = [&next](TimePoint when) { next = next ? std::min(*next, when) : when; };
    each([&](Line&, Seat& seat) {
        if (seat.is_leaving) consider(seat.progress_at + limits_.replaceable);
        if (is_waited_for(seat)) consider(seat.progress_at + limits_.patience);
    });
    timer_.arm(next);
}

}  // namespace triton::launcher
