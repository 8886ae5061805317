#include "lib/netlink/link_watch.h"

#include <array>
#include <cerrno>
#include <chrono>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/socket.h>

namespace triton::netlink {

namespace {

constexpr char what[] = "watch the links";

}  // namespace

Result<LinkWatch> LinkWatch::open() {
    UniqueFd socket{::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)};
    if (!socket) return fail(errno, what);
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_LINK;
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return fail(errno, what);
    return LinkWatch(std::move(socket));
}

Result<bool> LinkWatch::wait(TimePoint deadline) {
    for (;;) {  // until the deadline
        auto const left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
        if (left <= 0) return false;
        pollfd events{socket_.get(), POLLIN, 0};
        int const ready = ::poll(&events, 1, static_cast<int>(left));
        if (ready < 0 && errno != EINTR) return fail(errno, what);
        if (ready <= 0) continue;
        std::array<char, 8192> unread{};
        // The content does not matter; ENOBUFS only says that there was more than the kernel keeps
        while (::recv(socket_.get(), unread.data(), unread.size(), 0) > 0) {  // the host's links are not many
        }
        return true;
    }
}

}  // namespace triton::netlink
