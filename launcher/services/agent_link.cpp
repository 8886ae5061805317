#include "launcher/services/agent_link.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

constexpr int most_in_a_round = 8;
constexpr std::size_t most_descriptors = 4;  // in one message; only one is wanted

int option(int fd, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

/// Whoever sends a socket that would hold up its close(2) is not to hold us up.
bool is_stream(int fd) {
    linger const none{0, 0};
    (void)::setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    return option(fd, SO_DOMAIN) == AF_UNIX && option(fd, SO_TYPE) == SOCK_STREAM && option(fd, SO_ACCEPTCONN) == 0;
}

/// The descriptors of one message; nullopt: there is none, or nobody who could send one.
std::optional<std::vector<UniqueFd>> receive(int fd) {
    char byte = 0;
    iovec data{&byte, sizeof byte};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(most_descriptors * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t size = 0;
    do {
        size = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (size < 0 && errno == EINTR);
    if (size < 0) return std::nullopt;
    std::vector<UniqueFd> received;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        std::size_t const count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int one = -1;
            std::memcpy(&one, CMSG_DATA(part) + i * sizeof one, sizeof one);
            received.emplace_back(one);
        }
    }
    return received;
}

}  // namespace

Result<std::unique_ptr<AgentLink>> AgentLink::create(EventLoop& loop, Connected connected) {
    std::array<int, 2> ends{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return fail(errno, "make the agent's sockets");
    return adopt(loop, {ends[0], ends[1]}, std::move(connected));
}

Result<std::unique_ptr<AgentLink>> AgentLink::adopt(EventLoop& loop, State const& state, Connected connected) {
    std::unique_ptr<AgentLink> link(new AgentLink(UniqueFd{state.ours}, UniqueFd{state.theirs}, std::move(connected)));
    TRY(link->watch(loop));
    return link;
}

Result<> AgentLink::watch(EventLoop& loop) {
    watch_ = TRY(loop.on_readable(ours_.get(), [this] { take_connections(); }));
    return {};
}

void AgentLink::take_connections() {
    for (int i = 0; i < most_in_a_round; ++i) {
        auto received = receive(ours_.get());
        if (!received) return;
        if (received->size() == 1 && is_stream(received->front().get())) connected_(std::move(received->front()));
    }
}

}  // namespace triton::launcher
