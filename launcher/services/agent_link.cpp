#include "launcher/services/agent_link.h"

#include <array>
#include <cerrno>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

constexpr int most_in_a_round = 8;
}  // namespace

Result<std::unique_ptr<AgentLink>> AgentLink::create(EventLoop& loop, process::Quarantine& quarantine,
                                                     Connected connected) {
    std::array<int, 2> ends{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return fail(errno, "make the agent's sockets");
    return adopt(loop, quarantine, {ends[0], ends[1]}, std::move(connected));
}

Result<std::unique_ptr<AgentLink>> AgentLink::adopt(EventLoop& loop, process::Quarantine& quarantine,
                                                    State const& state, Connected connected) {
    std::unique_ptr<AgentLink> link(
        new AgentLink(loop, quarantine, UniqueFd{state.ours}, UniqueFd{state.theirs}, std::move(connected)));
    TRY(link->watch());
    return link;
}

Result<> AgentLink::watch() {
    watch_ = TRY(loop_.on_readable(ours_.get(), [this] { take_connections(); }));
    return {};
}

/// Another process takes the connections and looks at them: the agent may send any file, even one that is slow to
/// close.
void AgentLink::take_connections() {
    std::array<char, 1> byte;
    for (int i = 0; i < most_in_a_round; ++i) {
        process::Peeked const front = process::peek(ours_.get(), byte);
        if (front.state != process::Peeked::State::message) return;
        if (front.has_descriptors) {
            watch_ = {};
            ticket_ = quarantine_.receive(ours_.get(), [this](UniqueFd one) { take_connection(std::move(one)); });
            return;
        }
        process::take(ours_.get(), byte);
    }
}

void AgentLink::take_connection(UniqueFd connection) {
    ticket_ = {};
    (void)watch();  // if the kernel has no memory for that, no more of them come
    if (connection) connected_(std::move(connection));
}

}  // namespace triton::launcher
