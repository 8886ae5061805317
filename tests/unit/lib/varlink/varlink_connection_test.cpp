#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/varlink/connection.h"
#include "lib/varlink/socket.h"

namespace triton::varlink {

namespace {

using namespace std::chrono_literals;

/// The two ends of a connection; the test is the server.
class VarlinkConnectionTest : public ::testing::Test {
protected:
    VarlinkConnectionTest() {
        std::string const path = testing::TempDir() + "varlink-connection-" + std::to_string(::getpid());
        (void)::unlink(path.c_str());
        auto const address = socket_address(path);
        UniqueFd const listener{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr const*>(&*address), sizeof *address), 0);
        EXPECT_EQ(::listen(listener.get(), 1), 0);
        client = Connection::connect(path, 60s);
        server = UniqueFd{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
        (void)::unlink(path.c_str());
    }
    void send(std::string const& text) const {
        EXPECT_EQ(::send(server.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    }

    Result<Connection> client = fail(ErrorKind::unavailable, "connect");
    UniqueFd server;
    std::string const reply = std::string(R"({"parameters":{},"continues":true})") + '\0';
};

TEST_F(VarlinkConnectionTest, RepliesArriveUntilTheEnd) {
    send(reply + reply);
    server = UniqueFd();
    EXPECT_TRUE(client->reply(std::nullopt));
    EXPECT_TRUE(client->reply(std::chrono::steady_clock::now() + 60s));
    EXPECT_EQ(client->reply(std::nullopt).error(), Connection::Silence::ended);
}

TEST_F(VarlinkConnectionTest, AServerThatNeverStopsDoesNotMoveTheDeadline) {
    auto const past = std::chrono::steady_clock::now();
    send(reply + reply);
    EXPECT_EQ(client->reply(past).error(), Connection::Silence::timed_out);  // that would have to be received
    EXPECT_TRUE(client->reply(std::nullopt));
    EXPECT_EQ(client->reply(past).error(), Connection::Silence::timed_out);  // that is already there
}

}  // namespace

}  // namespace triton::varlink
