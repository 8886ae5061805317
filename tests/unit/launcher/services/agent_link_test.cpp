#include "launcher/services/agent_link.h"

#include <array>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/helpers/slow_to_close.h"

namespace triton::launcher {

namespace {

std::array<UniqueFd, 2> pair_of(int domain, int type) {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::socketpair(domain, type | SOCK_CLOEXEC, 0, ends.data()), 0);
    return {UniqueFd{ends[0]}, UniqueFd{ends[1]}};
}

/// As the agent does it.
void send(int link, std::vector<int> const& descriptors) {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) std::array<char, 256> control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
        cmsghdr* const part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
        std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size() * sizeof(int));
    }
    ASSERT_EQ(::sendmsg(link, &message, MSG_DONTWAIT | MSG_NOSIGNAL), 1);
}

class AgentLinkTest : public testing::Test {
protected:
    /// Runs the loop until `count` connections have come.
    void run_until(std::size_t count) {
        auto const is_done = [this] { return connections.size() >= wanted && quarantine.is_idle(); };
        loop->set_round_end([this, is_done] {
            if (is_done()) loop->stop();
        });
        wanted = count;
        if (is_done()) return;
        ASSERT_TRUE(loop->run());
    }

    std::unique_ptr<EventLoop> loop = *EventLoop::create();
    process::Quarantine quarantine{*loop};
    std::vector<UniqueFd> connections;
    std::size_t wanted = 0;
    AgentLink::Connected take = [this](UniqueFd connection) { connections.push_back(std::move(connection)); };
    std::unique_ptr<AgentLink> link = *AgentLink::create(*loop, quarantine, take);
};

TEST_F(AgentLinkTest, AConnectionIsOneEndOfAPair) {
    auto ends = pair_of(AF_UNIX, SOCK_STREAM);
    send(link->descriptor(), {ends[1].get()});
    run_until(1);
    ASSERT_EQ(::write(ends[0].get(), "x", 1), 1);
    char byte = 0;
    EXPECT_EQ(::read(connections[0].get(), &byte, 1), 1);
    EXPECT_EQ(byte, 'x');
    EXPECT_EQ(::fcntl(connections[0].get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(AgentLinkTest, AnythingElseIsClosed) {
    auto pipe_like = pair_of(AF_UNIX, SOCK_SEQPACKET);
    auto stream = pair_of(AF_UNIX, SOCK_STREAM);
    UniqueFd const file{::open("/dev/null", O_RDWR | O_CLOEXEC)};
    UniqueFd const internet{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    UniqueFd const listener{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr address{AF_UNIX, {}};
    ASSERT_EQ(::bind(listener.get(), &address, sizeof(sa_family_t)), 0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    int const before = ::dup(0);
    ASSERT_EQ(::close(before), 0);
    send(link->descriptor(), {pipe_like[0].get()});
    send(link->descriptor(), {file.get()});
    send(link->descriptor(), {internet.get()});
    send(link->descriptor(), {listener.get()});
    send(link->descriptor(), {});
    send(link->descriptor(), {stream[0].get(), stream[1].get()});
    send(link->descriptor(), std::vector<int>(20, file.get()));
    send(link->descriptor(), {stream[0].get()});
    run_until(1);
    EXPECT_EQ(connections.size(), 1U);
    connections.clear();
    int const after = ::dup(0);
    EXPECT_EQ(after, before) << "a descriptor was left open";
    ASSERT_EQ(::close(after), 0);
}

TEST_F(AgentLinkTest, WhatIsSlowToCloseHoldsNobodyUp) {
    SlowToClose slow;
    send(link->descriptor(), {slow.fd()});
    slow.let_go();
    auto stream = pair_of(AF_UNIX, SOCK_STREAM);
    send(link->descriptor(), {stream[0].get()});
    run_until(1);
    EXPECT_TRUE(slow.is_held_by_nobody());
}

TEST_F(AgentLinkTest, ManyComeInSeveralRounds) {
    auto stream = pair_of(AF_UNIX, SOCK_STREAM);
    for (int i = 0; i < 10; ++i)
        send(link->descriptor(), {stream[0].get()});
    run_until(10);
    EXPECT_EQ(connections.size(), 10U);
}

TEST_F(AgentLinkTest, TheNextVersionTakesWhatHasCome) {
    auto stream = pair_of(AF_UNIX, SOCK_STREAM);
    send(link->descriptor(), {stream[0].get()});
    AgentLink::State const state = link->export_state();
    AgentLink::State const copied{::dup(state.ours), ::dup(state.theirs)};
    link.reset();
    link = *AgentLink::adopt(*loop, quarantine, copied, take);
    run_until(1);
    EXPECT_EQ(connections.size(), 1U);
    EXPECT_EQ(link->export_state(), copied);
}

}  // namespace

}  // namespace triton::launcher
