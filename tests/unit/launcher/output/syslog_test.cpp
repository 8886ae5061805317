#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "launcher/output/syslog_relay.h"
#include "launcher/output/syslog_sender.h"

namespace triton::launcher {

namespace {

using testing::ElementsAre;

/// A daemon of our own, at a path.
class Daemon {
public:
    Daemon(std::string const& path, int type) : socket_(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address), 0);
        if (type == SOCK_STREAM) {
            EXPECT_EQ(::listen(socket_.get(), 4), 0);
        }
    }
    /// Of a stream: the next connection.
    void accept() { connection_ = UniqueFd{::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)}; }
    void hang_up() { connection_ = {}; }
    /// All that is there: datagrams, or parts of a stream.
    std::vector<std::string> read() {
        std::vector<std::string> all;
        std::array<char, 16384> buffer;
        int const fd = connection_ ? connection_.get() : socket_.get();
        for (ssize_t size = 0; (size = ::recv(fd, buffer.data(), buffer.size(), 0)) > 0;)
            all.emplace_back(buffer.data(), static_cast<std::size_t>(size));
        return all;
    }
    [[nodiscard]] int connection() const { return connection_.get(); }

private:
    UniqueFd socket_;
    UniqueFd connection_;
};

class SyslogTest : public testing::Test {
protected:
    SyslogTest() {
        char name[] = "/tmp/triton-syslog.XXXXXX";
        directory = ::mkdtemp(name);
        path = directory + "/log";
    }
    ~SyslogTest() override {
        std::error_code ignored;
        std::filesystem::remove_all(directory, ignored);
    }
    SyslogSender make_sender() {
        return {*loop, relay, "unix:" + path, [this] { ++rooms; }};
    }

    std::string directory;
    std::string path;
    std::unique_ptr<EventLoop> loop = std::move(*EventLoop::create());
    std::uint64_t lost = 0;
    int rooms = 0;
    SyslogRelay relay{*loop, [this](std::uint64_t messages) { lost += messages; }};
};

TEST_F(SyslogTest, ADatagramForEachMessage) {
    Daemon daemon(path, SOCK_DGRAM);
    auto sender = make_sender();
    sender.write("one\ntwo\n");
    EXPECT_EQ(sender.pending(), 0);
    EXPECT_THAT(daemon.read(), ElementsAre("one", "two"));
    EXPECT_EQ(sender.error().code, 0);
}

TEST_F(SyslogTest, AStreamHasThemWithNewlines) {
    Daemon daemon(path, SOCK_STREAM);
    auto sender = make_sender();
    sender.write("one\ntwo\n");
    daemon.accept();
    EXPECT_THAT(daemon.read(), ElementsAre("one\ntwo\n"));
}

TEST_F(SyslogTest, WithoutADaemonMessagesWait) {
    auto sender = make_sender();
    sender.write("one\n");
    EXPECT_EQ(sender.waiting(), "one\n");
    EXPECT_TRUE(sender.needs_retry());
    EXPECT_EQ(sender.error().text(), "cannot connect to " + path + ": No such file or directory");
    Daemon daemon(path, SOCK_DGRAM);
    sender.flush();
    EXPECT_EQ(sender.waiting(), "one\n") << "not again at once";
}

TEST_F(SyslogTest, ADaemonThatHasGoneIsRemembered) {
    auto sender = make_sender();
    {
        Daemon daemon(path, SOCK_STREAM);
        sender.write("one\n");
        daemon.accept();
        daemon.read();
    }
    sender.write("two\n");
    EXPECT_EQ(sender.waiting(), "two\n");
    EXPECT_EQ(sender.error().text(), "cannot write to " + path + ": Broken pipe");
    EXPECT_EQ(sender.fd(), -1);
}

TEST_F(SyslogTest, OneThatDoesNotReadLeavesRoomOnlyUpToALimit) {
    Daemon daemon(path, SOCK_DGRAM);
    auto sender = make_sender();
    std::string const message = std::string(1000, 'x') + "\n";
    int taken = 0;
    while (sender.has_room(message.size()) && taken < 10'000) {
        sender.write(message);
        ++taken;
    }
    EXPECT_LT(taken, 1000);
    EXPECT_FALSE(sender.needs_retry()) << "the socket tells";
    EXPECT_LE(sender.pending(), SyslogSender::capacity);
    std::size_t read = daemon.read().size();
    EventLoop::Timer timer(*loop, [&] {
        read += daemon.read().size();
        if (sender.pending() == 0)
            loop->stop();
        else
            timer.arm(std::chrono::steady_clock::now());
    });
    timer.arm(std::chrono::steady_clock::now());
    ASSERT_TRUE(loop->run());
    EXPECT_EQ(read + daemon.read().size(), static_cast<std::size_t>(taken));
    EXPECT_GT(rooms, 0);
}

TEST_F(SyslogTest, WhatIsNotASocketIsRefused) {
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    auto fifo = make_sender();
    fifo.write("one\n");
    EXPECT_EQ(fifo.error().text(), "cannot connect to " + path + ": it is not a socket");
    EXPECT_NE(fifo.error().code, 0) << "by which it is told";
}

TEST_F(SyslogTest, ADaemonCannotSendUsAnything) {
    Daemon daemon(path, SOCK_STREAM);
    auto sender = make_sender();
    sender.write("one\n");
    daemon.accept();
    EXPECT_EQ(::send(daemon.connection(), "x", 1, MSG_NOSIGNAL), -1);
    EXPECT_EQ(errno, EPIPE);
    sender.write("two\n");
    EXPECT_THAT(daemon.read(), ElementsAre("one\ntwo\n"));
}

// Through the agent.

class RelayTest : public SyslogTest {
protected:
    RelayTest() { EXPECT_TRUE(relay.open()); }
    std::string receive() const {
        std::array<char, 16384> buffer;
        ssize_t const size = ::recv(relay.messages(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        return size < 0 ? "(none)" : std::string(buffer.data(), static_cast<std::size_t>(size));
    }
    void answer(std::string_view text) {
        ASSERT_EQ(::write(relay.answers(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
        EventLoop::Timer timer(*loop, [this] { loop->stop(); });
        timer.arm(std::chrono::steady_clock::now());
        ASSERT_TRUE(loop->run());
    }
};

TEST_F(RelayTest, NumbersMessages) {
    SyslogSender sender(*loop, relay, "tcp:127.0.0.1:601", {});
    sender.write("one\ntwo words\n");
    EXPECT_EQ(receive(), "1 tcp:127.0.0.1:601 one");
    EXPECT_EQ(receive(), "2 tcp:127.0.0.1:601 two words");
    EXPECT_EQ(receive(), "(none)");
    EXPECT_EQ(sender.pending(), 0);
}

TEST_F(RelayTest, WithoutAnAgentMessagesWait) {
    SyslogSender sender(*loop, relay, "udp:127.0.0.1:514", {});
    std::string const message = std::string(4000, 'x') + "\n";
    for (int i = 0; i < 100 && sender.has_room(message.size()); ++i)
        sender.write(message);
    for (int i = 0; i < 1000 && sender.pending() == 0; ++i)
        sender.write(message);
    EXPECT_GT(sender.pending(), 0);
    EXPECT_TRUE(sender.needs_retry());
    while (receive() != "(none)") {
    }
    bool is_told = false;
    relay.when_room([&] { is_told = true; });
    answer("begin 1\n");
    EXPECT_TRUE(is_told);
    sender.flush();
    EXPECT_EQ(sender.pending(), 0);
}

TEST_F(RelayTest, WhatDiesWithAnAgentIsCounted) {
    for (int i = 0; i < 10; ++i)
        ASSERT_TRUE(relay.send("udp:127.0.0.1:514", "x"));
    answer("begin 1\n");
    answer("done 3 0\n");
    EXPECT_EQ(lost, 0);
    answer("begin 8\n");  // its successor finds three of the ten: 4 to 7 are gone
    EXPECT_EQ(lost, 4);
    answer("done 2 1\ndone 1 0\n");
    EXPECT_EQ(lost, 5);
    EXPECT_EQ(relay.export_state().done, 10);
}

TEST_F(RelayTest, TheEndSettlesAll) {
    for (int i = 0; i < 5; ++i)
        ASSERT_TRUE(relay.send("udp:127.0.0.1:514", "x"));
    ASSERT_EQ(::write(relay.answers(), "done 3 1\n", 9), 9);
    relay.finish();
    EXPECT_EQ(lost, 3);
    relay.finish();
    EXPECT_EQ(lost, 3) << "once";
}

TEST_F(RelayTest, NonsenseChangesNothing) {
    ASSERT_TRUE(relay.send("udp:127.0.0.1:514", "x"));
    for (char const* const text : {"\n", "done\n", "done 7 7\n", "begin 0\n", "begin 99\n",
                                   "done 18446744073709551615 1\n", "done -1 -1\n", "begin x\n", "hello\n"})
        answer(text);
    EXPECT_LE(relay.export_state().done, 1);
    EXPECT_LE(lost, 1) << "there was one message";
    answer(std::string(5000, 'x'));
    ASSERT_TRUE(relay.send("udp:127.0.0.1:514", "y"));
    answer("\ndone 1 0\n");
    EXPECT_EQ(relay.export_state().done, 2);
}

}  // namespace

}  // namespace triton::launcher
