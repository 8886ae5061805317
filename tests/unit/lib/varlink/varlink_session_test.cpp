#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "lib/varlink/session.h"

namespace triton::varlink {

namespace {

TEST(VarlinkSession, GivesBackWhatOnlySomethingLongHasNeeded) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    UniqueFd const reader{ends[0]};
    Session session{UniqueFd{ends[1]}, {}, Role{0}, {}};
    std::string const text(1 << 20, 'x');
    session.output({}) += text;
    std::string taken;
    while (session.pending() > 0) {
        session.flush({});
        char buffer[65536];
        for (ssize_t size; (size = ::recv(reader.get(), buffer, sizeof buffer, 0)) > 0;)
            taken.append(buffer, static_cast<std::size_t>(size));
    }
    EXPECT_TRUE(taken == text);
    EXPECT_LE(session.output({}).capacity(), std::size_t{64} * 1024);
}

}  // namespace

}  // namespace triton::varlink
