#include "lib/varlink/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "lib/varlink/socket.h"

namespace triton::varlink {

namespace {
constexpr std::size_t longest_reply = 1 << 20;  // four times what the server ever sends
}

Result<Connection> Connection::connect(std::string const& path, Duration limit) {
    sockaddr_un const address = TRY(socket_address(path));
    UniqueFd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    int err = errno;
    if (!fd) return fail(err, "make a socket");
    auto const left = std::max<std::int64_t>(1, std::chrono::duration_cast<std::chrono::microseconds>(limit).count());
    timeval const time{.tv_sec = static_cast<time_t>(left / 1'000'000),
                       .tv_usec = static_cast<suseconds_t>(left % 1'000'000)};
    // Limits each wait. Source: socket(7), SO_SNDTIMEO; connect(2) of a Unix socket obeys it, too.
    (void)::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);  // without it there is no limit
    int const result = ::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address);
    err = errno;
    if (result != 0 && err == EAGAIN)
        return fail(ErrorKind::timeout, "reach a launcher on " + path, "it accepts no connection");
    if (result != 0) return fail(err, "reach a launcher on " + path);
    return Connection{std::move(fd)};
}

void Connection::call(std::string_view method, std::string_view parameters, bool wants_more) {
    send(call_text(method, parameters, wants_more));
}

void Connection::call_for_upgrade(std::string_view method, std::string_view parameters) {
    send(upgrade_text(method, parameters));
}

void Connection::send(std::string_view text) {
    for (std::size_t sent = 0; sent < text.size();) {
        ssize_t const size = ::send(fd_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return;
        sent += static_cast<std::size_t>(size);
    }
}

std::expected<Reply, Connection::Silence> Connection::reply(std::optional<TimePoint> deadline) {
    std::size_t searched = 0;
    // The server decides how much it sends: the deadline also ends a stream of replies that never stops.
    while (!deadline || std::chrono::steady_clock::now() < *deadline) {
        std::size_t const end = input_.find('\0', searched);
        if (end != std::string::npos) {
            auto reply = parse_reply(std::string_view(input_).substr(0, end), longest_reply);
            input_.erase(0, end + 1);
            if (!reply) return std::unexpected(Silence::ended);
            return std::move(*reply);
        }
        searched = input_.size();
        if (searched > longest_reply) return std::unexpected(Silence::ended);
        int timeout = -1;
        if (deadline) {
            auto const left = std::chrono::ceil<milliseconds>(*deadline - std::chrono::steady_clock::now()).count();
            timeout = static_cast<int>(std::clamp<milliseconds::rep>(left, 0, std::numeric_limits<int>::max()));
        }
        pollfd ready{fd_.get(), POLLIN, 0};
        int const count = ::poll(&ready, 1, timeout);
        if (count <= 0) continue;
        std::array<char, 65536> piece;
        ssize_t const size = ::recv(fd_.get(), piece.data(), piece.size(), 0);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return std::unexpected(Silence::ended);
        input_.append(piece.data(), static_cast<std::size_t>(size));
    }
    return std::unexpected(Silence::timed_out);
}

}  // namespace triton::varlink
