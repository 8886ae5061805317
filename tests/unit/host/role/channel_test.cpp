#include "host/role/channel.h"

#include <array>
#include <cstring>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace triton::role {
namespace {

TimePoint now() { return std::chrono::steady_clock::now(); }

struct Ends {
    Channel a;
    Channel b;
};
Ends ends() {
    auto both = Channel::pair();
    EXPECT_TRUE(both);
    return {std::move(both->first), std::move(both->second)};
}

UniqueFd some_file() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

TEST(Channel, CarriesMessagesAndDescriptors) {
    Ends both = ends();
    UniqueFd const file = some_file();
    std::array const fds{file.get(), file.get()};
    ASSERT_TRUE(both.a.send("{}", fds, now()));
    auto const packet = both.b.receive(now(), 2);
    ASSERT_TRUE(packet) << packet.error().text();
    EXPECT_EQ(packet->text, "{}");
    ASSERT_EQ(packet->descriptors.size(), 2U);
    EXPECT_EQ(::fcntl(packet->descriptors[0].get(), F_GETFD), FD_CLOEXEC);
}

TEST(Channel, WaitsUntilTheDeadline) {
    Ends both = ends();
    auto const packet = both.b.receive(now());
    ASSERT_FALSE(packet);
    EXPECT_EQ(packet.error().kind, ErrorKind::timeout);
    EXPECT_EQ(packet.error().text(), "no message in time");
}

TEST(Channel, TellsThatThePeerHasGone) {
    Ends both = ends();
    both.a.close();
    EXPECT_EQ(both.b.receive(now()).error().kind, ErrorKind::unavailable);
    EXPECT_EQ(both.b.send("{}", {}, now()).error().text(), "the other end of the channel is closed");
}

TEST(Channel, HearsThePeersLastWordsThoughItHasNotReadOurs) {
    Ends both = ends();
    ASSERT_TRUE(both.b.send("unread", {}, now()));
    ASSERT_TRUE(both.a.send("last words", {}, now()));
    both.a.close();
    auto const packet = both.b.receive(now());
    ASSERT_TRUE(packet) << packet.error().text();
    EXPECT_EQ(packet->text, "last words");
    EXPECT_EQ(both.b.receive(now()).error().kind, ErrorKind::unavailable);
}

TEST(Channel, DoesNotWaitForAPeerThatDoesNotRead) {
    Ends both = ends();
    std::string const large(most_message_bytes, ' ');
    Result<> sent;
    for (int i = 0; i < 1000 && sent; ++i)
        sent = both.a.send(large, {}, now());
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().kind, ErrorKind::timeout);
}

TEST(Channel, RefusesToSendWhatItWouldNotTake) {
    Ends both = ends();
    EXPECT_EQ(both.a.send("", {}, now()).error().text(), "cannot send a message of 0 bytes");
    EXPECT_EQ(both.a.send(std::string(most_message_bytes + 1, ' '), {}, now()).error().text(),
              "cannot send a message of 65537 bytes");
    std::array<int, most_descriptors + 1> many{};
    EXPECT_EQ(both.a.send("{}", many, now()).error().text(), "cannot send so many descriptors");
}

// What only an enemy sends.

void send_raw(Channel const& channel, std::size_t bytes, std::size_t descriptors) {
    UniqueFd const file = some_file();
    std::string text(bytes, ' ');
    iovec part{text.data(), text.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * 250)> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (descriptors > 0) {
        header.msg_control = control.data();
        header.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
        cmsghdr* const rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
        for (std::size_t i = 0; i < descriptors; ++i) {
            int const fd = file.get();
            std::memcpy(CMSG_DATA(rights) + (i * sizeof fd), &fd, sizeof fd);
        }
    }
    ASSERT_EQ(::sendmsg(channel.fd(), &header, 0), static_cast<ssize_t>(bytes)) << std::strerror(errno);
}

int open_descriptors() {
    int count = 0;
    for (int fd = 0; fd < 1024; ++fd)
        count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    return count;
}

struct Enemy {
    std::size_t bytes;
    std::size_t descriptors;
    std::string_view message;
};

class EnemyChannel : public testing::TestWithParam<Enemy> {};

TEST_P(EnemyChannel, IsRefusedAndStaysSo) {
    Ends both = ends();
    int const before = open_descriptors();
    send_raw(both.a, GetParam().bytes, GetParam().descriptors);
    auto const packet = both.b.receive(now(), 1);
    ASSERT_FALSE(packet);
    EXPECT_EQ(packet.error().kind, ErrorKind::corrupt);
    EXPECT_EQ(packet.error().text(), GetParam().message);
    EXPECT_EQ(open_descriptors(), before);
    ASSERT_TRUE(both.a.send("{}", {}, now()));
    EXPECT_EQ(both.b.receive(now(), 1).error().text(), "the other end of the channel has broken its rules before");
}

INSTANTIATE_TEST_SUITE_P(All, EnemyChannel,
                         testing::Values(Enemy{most_message_bytes + 1, 0, "a message is longer than 65536 bytes"},
                                         Enemy{150'000, 0, "a message is longer than 65536 bytes"},
                                         Enemy{2, 2, "a message has 2 descriptors, not 1 at most"},
                                         Enemy{2, 16, "a message has 16 descriptors, not 1 at most"},
                                         Enemy{2, 17, "a message has too many descriptors"},
                                         Enemy{2, 250, "a message has too many descriptors"}));

}  // namespace
}  // namespace triton::role
