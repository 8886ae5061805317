#include "lib/http/grpc/client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "lib/base/error_kinds.h"

namespace triton::http::grpc {

namespace {

constexpr std::size_t receive_bytes = 64 * 1024;

Status too_late() { return {Code::deadline_exceeded, "the server does not answer in time"}; }
Status has_ended() { return {Code::unavailable, "the server has ended the connection"}; }

/// For poll(2); -1: for ever.
int milliseconds_until(std::optional<TimePoint> deadline) {
    if (!deadline) return -1;
    auto const left = std::chrono::ceil<milliseconds>(*deadline - steady_now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

timeval time_of(Duration limit) {
    auto const all = std::chrono::duration_cast<std::chrono::microseconds>(limit).count();
    return {.tv_sec = all / 1'000'000, .tv_usec = all % 1'000'000};
}

}  // namespace

/// Of several kinds with one code the first one; a code without a kind, as of a server in another language, is
/// internal.
Error error_of(Status const& status, std::string attempted) {
    auto const row = std::ranges::find(error_kinds, static_cast<int>(status.code), &ErrorKindRow::grpc_code);
    std::string reason = status.message.empty() ? std::string(name_of(status.code)) : status.message;
    return {.kind = row == error_kinds.end() ? ErrorKind::internal : row->kind,
            .attempted = std::move(attempted),
            .reason = std::move(reason),
            .details = {}};
}

/// The path of a socket may be longer than an address has room for, so it is opened first.
Result<Client> Client::connect(std::string const& path, Duration limit) {
    std::string const what = "connect to " + path;
    UniqueFd const file{::open(path.c_str(), O_PATH | O_CLOEXEC)};
    if (!file && errno == ENOENT) return fail(ErrorKind::unavailable, what, errno_text(ENOENT));
    if (!file) return fail(errno, what);
    UniqueFd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (!socket) return fail(errno, "make a socket");
    timeval const time = time_of(limit);
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);  // also for a full queue of the listener
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::string const shown = "/proc/self/fd/" + std::to_string(file.get());
    shown.copy(address.sun_path, sizeof address.sun_path - 1);
    if (::connect(socket.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0) {
        int const err = errno;
        if (err == EAGAIN) return fail(ErrorKind::unavailable, what, "the server accepts no connections");
        if (err == ECONNREFUSED) return fail(ErrorKind::unavailable, what, errno_text(err));
        return fail(err, what);
    }
    if (::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0) return fail(errno, what);
    return Client(std::move(socket));
}

std::expected<std::string, Status> Client::call(std::string const& path, std::string message, Duration limit) {
    std::vector<std::string> messages;
    messages.push_back(std::move(message));
    return std::move(call_each(path, std::move(messages), limit).front());
}

std::vector<std::expected<std::string, Status>> Client::call_each(std::string const& path,
                                                                  std::vector<std::string> messages, Duration limit) {
    struct One {
        std::optional<std::string> answer = {};
        std::optional<Status> end = {};
    };
    std::vector<One> calls(messages.size());
    for (std::size_t i = 0; i < calls.size(); ++i)
        session_->call(path, std::move(messages[i]), limit,
                       {.message = [one = &calls[i]](std::string text) { one->answer = std::move(text); },
                        .finished = [one = &calls[i]](Status const& status) { one->end = status; }});
    TimePoint const deadline = steady_now() + limit;
    while (session_->open_calls() > 0)
        if (auto const exchanged = exchange(deadline, -1); !exchanged) session_->lose(exchanged.error());
    std::vector<std::expected<std::string, Status>> answers;
    for (One& one : calls) {
        if (!one.end) one.end = Status{Code::internal, "the call has no end"};
        if (one.end->code == Code::ok && !one.answer) one.end = Status{Code::internal, "the answer has no message"};
        if (one.end->code == Code::ok)
            answers.emplace_back(*std::move(one.answer));
        else
            answers.emplace_back(std::unexpected(*std::move(one.end)));
    }
    return answers;
}

Status Client::follow(std::string const& path, std::string message, Following const& following,
                      std::function<bool(std::string const&)> const& take) {
    bool wants_more = true;
    std::optional<Status> end;
    session_->call(path, std::move(message), {},
                   {.message = [&](std::string const& text) { wants_more = wants_more && take(text); },
                    .finished = [&end](Status const& status) { end = status; }});
    while (!end) {
        auto const exchanged = exchange(following.deadline, following.reader);
        if (!wants_more) session_->lose({Code::cancelled, "nobody wants more of the answer"});
        if (!exchanged && !end) session_->lose(exchanged.error());
    }
    return *end;
}

/// Sends what is to be sent, waits for bytes of the server, and accepts them. After an error the connection is of no
/// use.
std::expected<void, Status> Client::exchange(std::optional<TimePoint> deadline, int reader) {
    if (auto const sent = send(session_->take_output(), deadline); !sent) return sent;
    std::array<pollfd, 2> waiting{{{socket_.get(), POLLIN, 0}, {reader, 0, 0}}};
    int const ready = ::poll(waiting.data(), waiting.size(), milliseconds_until(deadline));
    if (ready < 0 && errno != EINTR) return std::unexpected(Status{Code::internal, errno_text(errno)});
    if (waiting[1].revents != 0 && waiting[0].revents == 0)
        return std::unexpected(Status{Code::cancelled, "the reader of the output has gone"});
    if (ready <= 0)
        return deadline && steady_now() >= *deadline ? std::unexpected(too_late()) : std::expected<void, Status>();
    std::array<char, receive_bytes> buffer;
    ssize_t const size = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (size <= 0) return std::unexpected(has_ended());
    if (!session_->receive({buffer.data(), static_cast<std::size_t>(size)})) return std::unexpected(has_ended());
    return {};
}

std::expected<void, Status> Client::send(std::string const& bytes, std::optional<TimePoint> deadline) {
    for (std::size_t sent = 0; sent < bytes.size();) {
        ssize_t const size = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (size >= 0) {
            sent += static_cast<std::size_t>(size);
        } else if (errno == EAGAIN) {
            pollfd one{socket_.get(), POLLOUT, 0};
            if (::poll(&one, 1, milliseconds_until(deadline)) == 0 && deadline) return std::unexpected(too_late());
        } else if (errno != EINTR) {
            return std::unexpected(has_ended());
        }
    }
    return {};
}

}  // namespace triton::http::grpc
