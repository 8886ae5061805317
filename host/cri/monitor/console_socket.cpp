#include "host/cri/monitor/console_socket.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace triton::cri::monitor {

Result<ConsoleSocket> ConsoleSocket::create(std::string const& directory) {
    static std::uint64_t made = 0;
    std::string const name = "tty-" + std::to_string(++made);
    UniqueFd const above{::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (!above) return fail(errno, "open " + directory);
    UniqueFd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (!socket) return fail(errno, "make a socket");
    // A name has 107 bytes at most. Programs that take no longer ones are short of directories below a root of tests.
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::string const near = "/proc/self/fd/" + std::to_string(above.get()) + "/" + name;
    std::memcpy(address.sun_path, near.c_str(), near.size() + 1);
    std::string path = directory + "/" + name;
    ::unlink(path.c_str());
    if (::bind(socket.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
        return fail(errno, "bind " + path);
    ConsoleSocket console(std::move(socket), std::move(path));
    if (::listen(console.socket_.get(), 1) != 0) return fail(errno, "listen on " + console.path_);
    return console;
}

ConsoleSocket::ConsoleSocket(ConsoleSocket&& other) noexcept
    : socket_(std::move(other.socket_)), path_(std::exchange(other.path_, {})) {}

ConsoleSocket& ConsoleSocket::operator=(ConsoleSocket other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(path_, other.path_);
    return *this;
}

ConsoleSocket::~ConsoleSocket() {
    if (!path_.empty()) ::unlink(path_.c_str());
}

Result<UniqueFd> ConsoleSocket::take() const {
    auto const nothing = [] {
        return fail(ErrorKind::unavailable, "the runtime has not delivered the terminal that it was to make");
    };
    UniqueFd const peer{::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (!peer) return nothing();
    std::array<char, 4096> name{};
    iovec part{.iov_base = name.data(), .iov_len = name.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    if (::recvmsg(peer.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0) return nothing();
    cmsghdr const* const rights = CMSG_FIRSTHDR(&header);
    if (!rights || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS ||
        rights->cmsg_len != CMSG_LEN(sizeof(int)))
        return nothing();
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    UniqueFd terminal{fd};
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
    return terminal;
}

}  // namespace triton::cri::monitor
