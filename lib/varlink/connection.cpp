#include "lib/varlink/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include <poll.h>
#include <sys/socket.h>

#include "lib/varlink/socket.h"

namespace triton::varlink {

namespace {
constexpr std::size_t longest_reply = 1 << 20;  // four times what the server ever sends
}

Result<Connection> Connection::connect(std::string const& path) {
    sockaddr_un const address = TRY(socket_address(path));
    UniqueFd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    int result = fd ? 0 : -1;
    if (fd) result = ::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address);
    int const err = errno;
    if (result != 0) return fail(err, "reach a launcher on " + path);
    return Connection{std::move(fd)};
}

void Connection::call(std::string_view method, std::string_view parameters, bool wants_more) {
    std::string const text = call_text(method, parameters, wants_more);
    for (std::size_t sent = 0; sent < text.size();) {
        ssize_t const size = ::send(fd_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0) return;
        sent += static_cast<std::size_t>(size);
    }
}

std::expected<Reply, Connection::Silence> Connection::reply(std::optional<TimePoint> deadline) {
    std::size_t searched = 0;
    for (;;) {
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
        if (count == 0 && timeout < std::numeric_limits<int>::max()) return std::unexpected(Silence::timed_out);
        if (count <= 0) continue;
        std::array<char, 65536> piece;
        ssize_t const size = ::recv(fd_.get(), piece.data(), piece.size(), 0);
        if (size < 0 && errno == EINTR) continue;
        if (size <= 0) return std::unexpected(Silence::ended);
        input_.append(piece.data(), static_cast<std::size_t>(size));
    }
}

}  // namespace triton::varlink
