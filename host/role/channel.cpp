#include "host/role/channel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>

namespace triton::role {

namespace {

std::unexpected<Error> closed() { return fail(ErrorKind::unavailable, "the other end of the channel is closed"); }
/// What the system could not do. A lack of memory or descriptors must not look as if the peer had gone, which would
/// still be waited for.
std::unexpected<Error> not_sent(int err, std::string_view what) {
    auto failure = fail(err, what);
    if (failure.error().kind == ErrorKind::unavailable) failure.error().kind = ErrorKind::internal;
    return failure;
}
/// Waits for `events`, up to the deadline. Errors: `timeout`.
Result<> wait_for(int fd, short events, TimePoint deadline) {
    for (;;) {
        auto const left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd watched{.fd = fd, .events = events, .revents = 0};
        int const ready = ::poll(&watched, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT32_MAX)));
        if (ready > 0) return {};
        if (ready == 0 && left.count() <= INT32_MAX) return fail(ErrorKind::timeout, "no message in time");
        if (ready < 0 && errno != EINTR) return not_sent(errno, "wait for a message");
    }
}

using ControlBuffer = std::array<char, CMSG_SPACE(sizeof(int) * most_descriptors)>;

/// Takes all descriptors of a message. Other ancillary data, such as credentials, is ignored.
std::vector<UniqueFd> take_descriptors(msghdr& header) {
    std::vector<UniqueFd> descriptors;
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        std::size_t const count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(part) + (i * sizeof(int)), sizeof fd);
            descriptors.emplace_back(fd);
        }
    }
    return descriptors;
}

}  // namespace

Result<std::pair<Channel, Channel>> Channel::pair() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return fail(errno, "make a channel");
    return std::pair(Channel(UniqueFd(ends[0])), Channel(UniqueFd(ends[1])));
}

Result<> Channel::send(std::string_view text, std::span<int const> descriptors, TimePoint deadline) {
    if (text.empty() || text.size() > most_message_bytes)
        return fail("cannot send a message of " + std::to_string(text.size()) + " bytes");
    if (descriptors.size() > most_descriptors) return fail("cannot send so many descriptors");
    iovec part{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
    alignas(cmsghdr) ControlBuffer control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!descriptors.empty()) {
        header.msg_control = control.data();
        header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* const rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
    }
    for (;;) {
        if (::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return {};
        if (errno == EINTR) continue;
        if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return closed();
        if (errno != EAGAIN && errno != EWOULDBLOCK) return not_sent(errno, "send a message");
        TRY(wait_for(socket_.get(), POLLOUT, deadline));
    }
}

Result<Packet> Channel::receive(TimePoint deadline, std::size_t expected_descriptors) {
    if (is_broken_) return fail(ErrorKind::corrupt, "the other end of the channel has broken its rules before");
    std::string buffer(most_message_bytes, '\0');
    alignas(cmsghdr) ControlBuffer control{};
    msghdr header{};
    ssize_t size = -1;
    iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
    for (;;) {
        header = {};
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = control.data();
        header.msg_controllen = control.size();
        size = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (size >= 0) break;
        // The peer has gone without reading messages of ours. That is reported once, before what it has sent.
        if (errno == EINTR || errno == ECONNRESET) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) return not_sent(errno, "receive a message");
        TRY(wait_for(socket_.get(), POLLIN, deadline));
    }
    std::vector<UniqueFd> descriptors = take_descriptors(header);
    if (size == 0 && descriptors.empty() && (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) return closed();
    is_broken_ = true;
    if ((header.msg_flags & MSG_TRUNC) != 0)
        return fail(ErrorKind::corrupt, "a message is longer than " + std::to_string(most_message_bytes) + " bytes");
    if ((header.msg_flags & MSG_CTRUNC) != 0) return fail(ErrorKind::corrupt, "a message has too many descriptors");
    if (size == 0) return fail(ErrorKind::corrupt, "a message is empty");
    if (descriptors.size() > expected_descriptors)
        return fail(ErrorKind::corrupt, "a message has " + std::to_string(descriptors.size()) + " descriptors, not " +
                                            std::to_string(expected_descriptors) + " at most");
    is_broken_ = false;
    buffer.resize(static_cast<std::size_t>(size));
    return Packet{std::move(buffer), std::move(descriptors)};
}

}  // namespace triton::role
