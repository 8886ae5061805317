#include "host/info/client/client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/info/client/http_answer.h"
#include "lib/text/printable.h"

namespace triton::info {

namespace {

using std::chrono::steady_clock;

constexpr std::size_t most_refusal = 4 << 10;  // bytes of a sentence that says why
constexpr std::size_t most_name = 100;

std::unexpected<Error> silent() { return fail(ErrorKind::timeout, "vminfod does not answer"); }

/// Limits the wait for a peer that takes nothing. Source: socket(7), SO_SNDTIMEO; connect(2) of a Unix socket obeys it,
/// too.
void limit_sending(int fd, milliseconds patience) {
    timeval const time{.tv_sec = static_cast<time_t>(patience.count() / 1000),
                       .tv_usec = static_cast<suseconds_t>(patience.count() % 1000 * 1000)};
    (void)::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);  // without it there is no limit
}

Result<> send_all(int fd, std::string_view text) {
    while (!text.empty()) {
        ssize_t const sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return silent();
        // the peer has refused before reading everything: its answer says why
        if (sent < 0 && errno == EPIPE) return {};
        if (sent < 0) return fail(errno, "ask vminfod");
        text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return {};
}

/// Waits until there is something to read. Returns false when nobody reads from the pipe `reader` any more (-1: no
/// pipe).
/// Errors: timeout at the deadline. Source: poll(2): a pipe without a reader has POLLERR.
Result<bool> wait(int fd, int reader, TimePoint deadline) {
    for (;;) {
        auto const left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
        std::array<pollfd, 2> ready{{{fd, POLLIN, 0}, {reader, 0, 0}}};
        int const count =
            ::poll(ready.data(), ready.size(), static_cast<int>(std::clamp<milliseconds::rep>(left, 0, 1 << 30)));
        if (count == 0) return silent();
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail(errno, "wait for vminfod");
        return (ready[1].revents & POLLERR) == 0;
    }
}

/// The next bytes of an answer; empty at its end. Errors: timeout at the deadline.
Result<std::string_view> receive(int fd, std::span<char> room, TimePoint deadline) {
    for (;;) {
        TRY(wait(fd, -1, deadline));
        ssize_t const size = ::recv(fd, room.data(), room.size(), 0);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == ECONNRESET) return std::string_view();
        if (size < 0) return fail(errno, "read the answer of vminfod");
        return std::string_view(room.data(), static_cast<std::size_t>(size));
    }
}

/// The meaning of a status other than 200 for the caller.
struct RefusalRow {
    unsigned status;
    ErrorKind kind;
};
constexpr std::array<RefusalRow, 6> refusals{{{400, ErrorKind::invalid},
                                              {403, ErrorKind::refused},
                                              {404, ErrorKind::unsupported},
                                              {414, ErrorKind::invalid},
                                              {503, ErrorKind::busy},
                                              {504, ErrorKind::timeout}}};

Error refusal(unsigned status, std::string_view body) {
    std::string const sentence(body.substr(0, body.find('\n')));
    if (status == 404 && sentence.starts_with("VM Not Found")) return fail(ErrorKind::not_found, sentence).error();
    auto const row = std::ranges::find(refusals, status, &RefusalRow::status);
    ErrorKind const kind = row == refusals.end() ? ErrorKind::unsupported : row->kind;
    return fail(kind, "vminfod answers " + std::to_string(status) + (sentence.empty() ? "" : ": " + sentence)).error();
}

using Room = std::array<char, 64 << 10>;

/// Reads the head of an answer, with the part of its content that comes with it. Anything but a success is an error.
Result<> read_head(int fd, AnswerReader& answer, Room& room, TimePoint deadline) {
    while (!answer.has_head()) {
        std::string_view const bytes = TRY(receive(fd, room, deadline));
        TRY(bytes.empty() ? answer.end() : answer.take(bytes));
    }
    if (answer.status() == 200) return {};
    while (!answer.is_complete() && answer.body().size() < most_refusal) {
        auto const bytes = receive(fd, room, deadline);
        if (!bytes) break;  // then the status alone must do
        if (!(bytes->empty() ? answer.end() : answer.take(*bytes))) break;
    }
    return std::unexpected(refusal(answer.status(), std::string_view(answer.body()).substr(0, most_refusal)));
}

}  // namespace

Client::Client(std::string socket, std::string_view name)
    : socket_(std::move(socket)), name_(text::printable_ascii(name, most_name)) {}

bool Client::has_socket() const { return ::access(socket_.c_str(), F_OK) == 0; }

Result<UniqueFd> Client::ask(std::string const& target, milliseconds patience) const {
    std::string const what = "reach vminfod on " + socket_;
    // Connects through a descriptor: below some root directory, the socket's path may be longer than an address allows.
    UniqueFd const file{::open(socket_.c_str(), O_PATH | O_CLOEXEC)};
    int err = errno;
    if (!file && err == ENOENT) return fail(ErrorKind::unavailable, what, errno_text(err));
    if (!file) return fail(err, what);
    UniqueFd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    err = errno;
    if (!fd) return fail(err, "make a socket");
    limit_sending(fd.get(), patience);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::string const path = "/proc/self/fd/" + std::to_string(file.get());
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    int const connected = ::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address);
    err = errno;
    if (connected != 0 && err == EAGAIN) return silent();
    if (connected != 0 && err == ECONNREFUSED) return fail(ErrorKind::unavailable, what, errno_text(err));
    if (connected != 0) return fail(err, what);
    TRY(send_all(fd.get(), "GET " + target + " HTTP/1.1\r\nHost: localhost\r\nUser-Agent: " + name_ +
                               "\r\nAccept: application/x-ndjson, application/json, */*\r\nConnection: close\r\n\r\n"));
    return fd;
}

Result<std::string> Client::get(std::string const& target, std::size_t limit, Patience patience) const {
    TimePoint const begin = steady_clock::now();
    UniqueFd const fd = TRY(ask(target, patience.start));
    AnswerReader answer(limit);
    auto const room = std::make_unique<Room>();
    TRY(read_head(fd.get(), answer, *room, begin + patience.start));
    TimePoint const deadline = begin + std::max(patience.start, patience.whole);
    while (!answer.is_complete()) {
        std::string_view const bytes = TRY(receive(fd.get(), *room, deadline));
        TRY(bytes.empty() ? answer.end() : answer.take(bytes));
    }
    return std::move(answer.body());
}

Result<> Client::follow(std::string const& target, FollowLimits const& limits, TakeLine const& take) const {
    auto const next_deadline = [&limits] {
        TimePoint const quiet = steady_clock::now() + limits.silence;
        return limits.deadline ? std::min(quiet, *limits.deadline) : quiet;
    };
    UniqueFd const fd = TRY(ask(target, Patience{}.start));
    AnswerReader answer(limits.longest_line);
    auto const room = std::make_unique<Room>();
    TRY(read_head(fd.get(), answer, *room, std::min(steady_clock::now() + Patience{}.start, next_deadline())));
    std::size_t searched = 0;  // of the body: a long line comes in thousands of pieces
    for (;;) {
        std::string& body = answer.body();
        std::size_t begin = 0;
        for (std::size_t end; (end = body.find('\n', searched)) != std::string::npos; begin = searched = end + 1)
            if (!take(std::string_view(body).substr(begin, end - begin))) return {};
        body.erase(0, begin);
        searched = body.size();
        if (answer.is_complete()) return fail(ErrorKind::unavailable, "VminfodEventStream ended prematurely");
        if (!TRY(wait(fd.get(), limits.reader, next_deadline()))) return {};
        std::string_view const bytes = TRY(receive(fd.get(), *room, next_deadline()));
        if (bytes.empty()) return fail(ErrorKind::unavailable, "VminfodEventStream ended prematurely");
        TRY(answer.take(bytes));
    }
}

}  // namespace triton::info
