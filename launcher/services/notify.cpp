#include "launcher/services/notify.h"

#include <cstddef>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>

namespace triton::launcher {

Notifier::Notifier(char const* address) {
    if (!address || (address[0] != '/' && address[0] != '@') || !address[1]) return;
    std::string_view const path = address;
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    if (path.size() >= sizeof to.sun_path) return;
    std::memcpy(to.sun_path, path.data(), path.size());
    if (path[0] == '@') to.sun_path[0] = '\0';
    UniqueFd socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    auto const length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    if (socket && ::connect(socket.get(), reinterpret_cast<sockaddr const*>(&to), length) == 0)
        socket_ = std::move(socket);
}

void Notifier::send(std::string_view state) const {
    // The result would tell that nobody listens any more: supervision can do nothing about that.
    if (socket_) (void)::send(socket_.get(), state.data(), state.size(), MSG_NOSIGNAL);
}

}  // namespace triton::launcher
