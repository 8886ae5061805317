#include "host/cri/monitor/port_connection.h"

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>

namespace triton::cri::monitor {

namespace {

/// A socket belongs to the namespace in which it was made. This process has one thread, which comes back.
Result<UniqueFd> make_socket(int network, int family) {
    UniqueFd own;
    if (network >= 0) {
        own = UniqueFd{::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)};
        if (!own) return fail(errno, "open the own network namespace");
        if (::setns(network, CLONE_NEWNET) != 0) return fail(errno, "enter the network namespace of the pod");
    }
    UniqueFd socket{::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP)};
    int const error = errno;
    // It has been in there a moment ago. If it could not come back, it would make the wrong sockets from now on.
    if (own && ::setns(own.get(), CLONE_NEWNET) != 0) std::abort();
    if (!socket) return fail(error, "make a socket");
    int const on = 1;
    (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return socket;
}

int connect_socket(int socket, int family, std::uint16_t port) {
    if (family == AF_INET) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return ::connect(socket, reinterpret_cast<sockaddr const*>(&address), sizeof address);
    }
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    address.sin6_addr = in6addr_loopback;
    return ::connect(socket, reinterpret_cast<sockaddr const*>(&address), sizeof address);
}

}  // namespace

/// Returns whether it is connected already; else it is on its way, or error_ says why not.
Result<bool> PortConnection::connect(int family) {
    socket_ = TRY(make_socket(network_, family));
    if (connect_socket(socket_.get(), family, port_) == 0) return true;
    if (errno == EINPROGRESS) return false;
    int const error = errno;
    socket_ = {};
    if (error_ == 0) error_ = error;
    return false;
}

int PortConnection::outcome() const {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
    return error;
}

Result<UniqueFd> PortConnection::go_on() {
    std::string const attempt = "connect to port " + std::to_string(port_) + " of the pod";
    if (steady_now() >= deadline_) return fail(ErrorKind::timeout, attempt, "it does not answer");
    for (;;) {
        switch (step_) {
            case Step::first:
            case Step::second: {
                bool const is_first = step_ == Step::first;
                auto const connected = connect(is_first ? AF_INET : AF_INET6);
                if (!connected) return std::unexpected(connected.error());
                if (*connected) return std::move(socket_);
                if (socket_) {
                    step_ = is_first ? Step::first_waits : Step::second_waits;
                    return UniqueFd{};
                }
                if (!is_first) return fail(error_, attempt);
                step_ = Step::second;
                break;
            }
            case Step::first_waits:
            case Step::second_waits: {
                int const error = outcome();
                if (error == 0) return std::move(socket_);
                if (error_ == 0) error_ = error;
                if (step_ == Step::second_waits) return fail(error_, attempt);
                step_ = Step::second;
                break;
            }
        }
    }
}

}  // namespace triton::cri::monitor
