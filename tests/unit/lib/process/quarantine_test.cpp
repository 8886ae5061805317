#include "lib/process/quarantine.h"

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/helpers/slow_to_close.h"

namespace triton::process {

namespace {

using State = Peeked::State;

std::array<UniqueFd, 2> pair_of(int type) {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()), 0);
    return {UniqueFd{ends[0]}, UniqueFd{ends[1]}};
}

void send(int socket, std::string_view text, std::vector<int> const& descriptors = {}) {
    iovec data{const_cast<char*>(text.data()), text.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(253 * sizeof(int))> control{};
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
    ASSERT_EQ(::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

/// The next free number: equal before and after when nothing was opened.
int next_descriptor() {
    int const fd = ::dup(0);
    EXPECT_EQ(::close(fd), 0);
    return fd;
}

class QuarantineTest : public ::testing::Test {
protected:
    ~QuarantineTest() override {
        run_until([this] { return quarantine.is_idle(); });
    }

    void run_until(std::function<bool()> const& is_done) {
        if (is_done()) return;
        loop->set_round_end([&] {
            if (is_done()) loop->stop();
        });
        ASSERT_TRUE(loop->run());
        loop->set_round_end(nullptr);
    }
    Peeked peek_at(int socket, bool with_sender = false) {
        Peeked const front = with_sender ? peek_with_sender(socket, buffer) : peek(socket, buffer);
        text = {buffer.data(), front.size};
        return front;
    }

    std::unique_ptr<EventLoop> loop = *EventLoop::create();
    Quarantine quarantine{*loop};
    std::array<char, 64> buffer{};
    std::string_view text;
};

TEST_F(QuarantineTest, PeekTellsOfDescriptorsAndTakesNone) {
    auto const ends = pair_of(SOCK_DGRAM);
    UniqueFd const file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    int const before = next_descriptor();
    EXPECT_EQ(peek_at(ends[0].get()).state, State::nothing);
    send(ends[1].get(), "with", {file.get(), file.get(), file.get(), file.get(), file.get()});
    for (int i = 0; i < 2; ++i) {
        Peeked const front = peek_at(ends[0].get());
        EXPECT_EQ(front.state, State::message);
        EXPECT_TRUE(front.has_descriptors);
        EXPECT_FALSE(front.is_cut);
        EXPECT_EQ(text, "with");
    }
    EXPECT_EQ(next_descriptor(), before);
}

TEST_F(QuarantineTest, PeekKnowsTheSender) {
    auto const ends = pair_of(SOCK_DGRAM);
    int const yes = 1;
    ASSERT_EQ(::setsockopt(ends[0].get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes), 0);
    UniqueFd const file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    int const before = next_descriptor();
    for (std::vector<int> const& descriptors : {std::vector<int>{}, {file.get()}, std::vector<int>(253, file.get())}) {
        send(ends[1].get(), "text", descriptors);
        Peeked const front = peek_at(ends[0].get(), true);
        EXPECT_EQ(front.pid, ::getpid());
        EXPECT_EQ(front.user, ::getuid());
        EXPECT_EQ(front.has_descriptors, !descriptors.empty());
        EXPECT_EQ(next_descriptor(), before);
        bool is_taken = false;
        auto const ticket = quarantine.discard(ends[0].get(), [&] { is_taken = true; });
        run_until([&] { return is_taken && quarantine.is_idle(); });
    }
    EXPECT_EQ(peek_at(ends[0].get(), true).state, State::nothing);
}

TEST_F(QuarantineTest, StreamEndsBeforeAndWithDescriptors) {
    auto ends = pair_of(SOCK_STREAM);
    UniqueFd const file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    send(ends[1].get(), "before ");
    EXPECT_FALSE(peek_at(ends[0].get()).has_descriptors);
    send(ends[1].get(), "with", {file.get()});
    send(ends[1].get(), " after");
    Peeked const front = peek_at(ends[0].get());
    EXPECT_TRUE(front.has_descriptors);
    EXPECT_EQ(text, "before with");
    // Taking what comes before them takes none of them.
    std::array<char, 6> first{};
    (void)peek(ends[0].get(), first);
    take(ends[0].get(), first);
    EXPECT_TRUE(peek_at(ends[0].get()).has_descriptors);
    EXPECT_EQ(text, " with");
}

TEST_F(QuarantineTest, EndAndErrorsOfAStream) {
    auto ends = pair_of(SOCK_STREAM);
    send(ends[1].get(), "last");
    ends[1] = {};
    EXPECT_EQ(peek_at(ends[0].get()).state, State::message);
    take(ends[0].get(), std::span(buffer).first(4));
    Peeked const end = peek_at(ends[0].get());
    EXPECT_EQ(end.state, State::message);
    EXPECT_EQ(end.size, 0U);
    EXPECT_EQ(peek_at(-1).state, State::broken);
}

TEST_F(QuarantineTest, DatagramsThatAreEmptyOrTooLong) {
    auto const ends = pair_of(SOCK_DGRAM);
    send(ends[1].get(), "");
    send(ends[1].get(), std::string(65, 'x'));
    send(ends[1].get(), "next");
    EXPECT_EQ(peek_at(ends[0].get()).state, State::message);
    take(ends[0].get(), std::span(buffer).first(0));
    EXPECT_TRUE(peek_at(ends[0].get()).is_cut);
    take(ends[0].get(), std::span(buffer).first(64));
    EXPECT_FALSE(peek_at(ends[0].get()).is_cut);
    EXPECT_EQ(text, "next");
}

TEST_F(QuarantineTest, DiscardTakesOneMessageOnly) {
    auto const ends = pair_of(SOCK_DGRAM);
    UniqueFd const file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    send(ends[1].get(), "one", {file.get()});
    send(ends[1].get(), "two", {file.get()});
    bool is_taken = false;
    auto const ticket = quarantine.discard(ends[0].get(), [&] { is_taken = true; });
    run_until([&] { return is_taken; });
    EXPECT_TRUE(peek_at(ends[0].get()).has_descriptors);
    EXPECT_EQ(text, "two");
}

TEST_F(QuarantineTest, SlowFilesHoldUpNobody) {
    auto const ends = pair_of(SOCK_DGRAM);
    SlowToClose slow;
    send(ends[1].get(), "slow", {slow.fd()});
    slow.let_go();
    bool is_taken = false;
    auto const ticket = quarantine.discard(ends[0].get(), [&] { is_taken = true; });
    run_until([&] { return is_taken && quarantine.is_idle(); });
    EXPECT_TRUE(slow.is_held_by_nobody());
}

TEST_F(QuarantineTest, SocketIsClosedElsewhereWhenSomethingLiesInIt) {
    for (int const type : {SOCK_DGRAM, SOCK_STREAM, SOCK_SEQPACKET}) {
        auto ends = pair_of(type);
        SlowToClose slow;
        send(ends[1].get(), "text");
        send(ends[1].get(), "slow", {slow.fd()});
        slow.let_go();
        quarantine.close(std::move(ends[0]));
        EXPECT_FALSE(quarantine.is_idle());
        char const byte = 0;
        EXPECT_LT(::send(ends[1].get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL), 0) << "nobody can add to it";
        run_until([&] { return quarantine.is_idle(); });
        EXPECT_TRUE(slow.is_held_by_nobody());
    }
}

TEST_F(QuarantineTest, EmptySocketIsClosedAtOnce) {
    for (int const type : {SOCK_DGRAM, SOCK_STREAM}) {
        int const before = next_descriptor();
        {
            auto ends = pair_of(type);
            quarantine.close(std::move(ends[0]));
        }
        EXPECT_TRUE(quarantine.is_idle());
        EXPECT_EQ(next_descriptor(), before);
    }
}

TEST_F(QuarantineTest, OnlyConnectedStreamsAreReceived) {
    auto const link = pair_of(SOCK_SEQPACKET);
    auto const stream = pair_of(SOCK_STREAM);
    UniqueFd const lonely{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    UniqueFd const file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    std::vector<bool> got;
    for (std::vector<int> const& descriptors :
         {std::vector<int>{stream[0].get()}, {lonely.get()}, {file.get()}, {stream[0].get(), stream[1].get()}}) {
        send(link[1].get(), "x", descriptors);
        bool is_answered = false;
        auto const ticket = quarantine.receive(link[0].get(), [&](UniqueFd one) {
            got.push_back(static_cast<bool>(one));
            is_answered = true;
        });
        run_until([&] { return is_answered; });
    }
    EXPECT_EQ(got, (std::vector<bool>{true, false, false, false}));
}

TEST_F(QuarantineTest, DroppedTicketIsNotAnswered) {
    auto const ends = pair_of(SOCK_DGRAM);
    UniqueFd const file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    send(ends[1].get(), "text", {file.get()});
    {
        auto const ticket = quarantine.discard(ends[0].get(), [] { FAIL() << "nobody wants to know"; });
    }
    run_until([&] { return quarantine.is_idle(); });
    EXPECT_EQ(peek_at(ends[0].get()).state, State::nothing);
}

TEST_F(QuarantineTest, ManyWishesHaveFewHelpers) {
    std::vector<std::array<UniqueFd, 2>> pairs;
    std::vector<Quarantine::Ticket> tickets;
    UniqueFd const file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    int const before = next_descriptor();
    std::size_t taken = 0;
    for (int i = 0; i < 40; ++i) {
        pairs.push_back(pair_of(SOCK_DGRAM));
        send(pairs.back()[1].get(), "text", {file.get()});
        tickets.push_back(quarantine.discard(pairs.back()[0].get(), [&] { ++taken; }));
    }
    EXPECT_LE(next_descriptor(), before + 40 * 2 + 8 * 3);
    run_until([&] { return taken == 40 && quarantine.is_idle(); });
    pairs.clear();
    EXPECT_EQ(next_descriptor(), before);
    EXPECT_EQ(::waitpid(-1, nullptr, __WALL | WNOHANG), -1) << "a child was left behind";
}

}  // namespace

}  // namespace triton::process
