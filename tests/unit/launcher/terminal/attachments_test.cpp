#include "launcher/terminal/attachments.h"

#include <cerrno>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

using namespace std::chrono_literals;

/// The other end of a client's connection.
struct Peer {
    UniqueFd fd;

    void send(AttachFrame what, std::string_view content) const {
        std::string bytes;
        append_attach_frame(bytes, what, content);
        raw(bytes);
    }
    void raw(std::string_view bytes) const {
        ASSERT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL),
                  static_cast<ssize_t>(bytes.size()));
    }
    /// All that has come: content of data as it is, other frames as "<e0>".
    std::string read() {
        char buffer[65536];
        for (ssize_t size = 0; (size = ::recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT)) >= 0;) {
            if (size == 0) {
                is_ended = true;
                break;
            }
            rest.append(buffer, static_cast<std::size_t>(size));
        }
        std::string text;
        for (AttachMessage message; read_attach_frame(rest, message) == AttachReading::whole;) {
            if (message.what == AttachFrame::data)
                text += message.content;
            else
                text.append("<").append(1, static_cast<char>(message.what)).append(message.content).append(">");
            rest.erase(0, message.size);
        }
        return text;
    }
    /// Whether all that it has sent was taken.
    [[nodiscard]] bool is_heard() const {
        int unread = 1;
        return ::ioctl(fd.get(), SIOCOUTQ, &unread) == 0 && unread == 0;
    }
    std::string rest = {};
    bool is_ended = false;
};

class AttachmentsTest : public testing::Test {
protected:
    static constexpr TerminalKey shell{1, 1};

    AttachmentsTest() : terminal(std::move(*open_pseudo_terminal({24, 80}, ::geteuid()))) {
        termios mode{};
        EXPECT_EQ(::tcgetattr(terminal.slave.get(), &mode), 0);
        ::cfmakeraw(&mode);
        EXPECT_EQ(::tcsetattr(terminal.slave.get(), TCSANOW, &mode), 0);
        EXPECT_EQ(::fcntl(terminal.slave.get(), F_SETFL, O_NONBLOCK), 0);
    }

    Peer attach(bool may_write = true, bool follows = false, std::string_view before = "") {
        int ends[2] = {-1, -1};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        EXPECT_EQ(::fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
        attachments->add(shell, terminal.master.get(), {UniqueFd{ends[0]}, may_write, follows}, before);
        return {UniqueFd{ends[1]}};
    }
    std::string typed() const {
        std::string text;
        char buffer[4096];
        for (ssize_t size = 0; (size = ::read(terminal.slave.get(), buffer, sizeof buffer)) > 0;)
            text.append(buffer, static_cast<std::size_t>(size));
        return text;
    }
    winsize window() const {
        winsize size{};
        EXPECT_EQ(::ioctl(terminal.slave.get(), TIOCGWINSZ, &size), 0);
        return size;
    }
    /// Runs the loop until `is_done`, which is asked every millisecond; fails after ten seconds.
    void until(std::function<bool()> const& is_done) {
        TimePoint const limit = std::chrono::steady_clock::now() + 10s;
        bool was_done = false;
        EventLoop::Timer timer(*loop, [&] {
            was_done = is_done();
            if (was_done || std::chrono::steady_clock::now() > limit) return loop->stop();
            timer.arm(std::chrono::steady_clock::now() + 1ms);
        });
        timer.arm(std::chrono::steady_clock::now());
        ASSERT_TRUE(loop->run());
        EXPECT_TRUE(was_done) << "not within ten seconds";
    }

    std::unique_ptr<EventLoop> loop = std::move(*EventLoop::create());
    PseudoTerminal terminal;
    int closed = 0;
    int rooms = 0;
    AttachLimits limits{.clients = 2, .output_bytes = 64 * 1024, .patience = 50ms, .replaceable = 1h};
    std::unique_ptr<Attachments> attachments = make();

    std::unique_ptr<Attachments> make() {
        return std::make_unique<Attachments>(
            *loop, Attachments::Callbacks{.close = [this](UniqueFd) { ++closed; }, .has_room = [this] { ++rooms; }},
            limits);
    }
};

TEST_F(AttachmentsTest, BothDirections) {
    Peer peer = attach(true, false, "ready> ");
    EXPECT_EQ(peer.read(), "ready> ");
    attachments->written(shell, "shown");
    attachments->written({1, 2}, "of another");
    EXPECT_EQ(peer.read(), "shown");
    peer.send(AttachFrame::data, "ls\r");
    peer.send(AttachFrame::window, window_content({33, 101}));
    std::string keys;
    until([&] { return (keys += typed()) == "ls\r" && window().ws_row == 33; });
    EXPECT_EQ(window().ws_col, 101);
}

TEST_F(AttachmentsTest, WhoOnlyLooksOnCountsForNothing) {
    Peer onlooker = attach(false);
    Peer other = attach();
    onlooker.send(AttachFrame::data, "no");
    onlooker.send(AttachFrame::window, window_content({1, 1}));
    other.send(AttachFrame::data, "yes");
    std::string keys;
    until([&] { return (keys += typed()).ends_with("yes"); });
    EXPECT_EQ(keys, "yes");
    EXPECT_EQ(window().ws_row, 24);
    attachments->written(shell, "seen");
    EXPECT_EQ(onlooker.read(), "seen");
}

TEST_F(AttachmentsTest, EndIsTheLastThatIsTold) {
    Peer peer = attach();
    Peer follower = attach(true, true);
    attachments->written(shell, "bye");
    attachments->ended(shell, 7 << 8);
    EXPECT_EQ(peer.read(), "bye<e1792>");
    EXPECT_TRUE(peer.is_ended);
    EXPECT_EQ(follower.read(), "bye<e1792>");
    EXPECT_FALSE(follower.is_ended);
    follower.send(AttachFrame::data, "into nothing");
    until([&] { return follower.is_heard(); });
    attachments->opened(shell, terminal.master.get());
    EXPECT_EQ(follower.read(), "<s>");
    follower.send(AttachFrame::data, "again");
    std::string keys;
    until([&] { return !(keys += typed()).empty(); });
    EXPECT_EQ(keys, "again");
    attachments->removed(shell);
    EXPECT_EQ(follower.read(), "<othe configuration has no such process any more>");
    EXPECT_TRUE(attachments->is_empty());
}

/// A slow client of a process that has ended is still there when the next one begins.
TEST_F(AttachmentsTest, WhoLeavesTypesNothingIntoTheNextProcess) {
    Peer peer = attach();
    while (!attachments->is_behind(shell))
        attachments->written(shell, std::string(4096, 'x'));
    attachments->ended(shell, 0);
    attachments->opened(shell, terminal.master.get());
    peer.send(AttachFrame::data, "exit\r");
    peer.send(AttachFrame::window, window_content({1, 1}));
    until([&] { return peer.is_heard(); });
    EXPECT_EQ(typed(), "");
    EXPECT_EQ(window().ws_row, 24);
    std::string seen;
    until([&] { return (seen += peer.read()).ends_with("<e0>"); });
    EXPECT_TRUE(attachments->is_empty());
}

/// Of a program whose id another one gets: also who waits for a number that has never been there.
TEST_F(AttachmentsTest, WithTheProgramAllOfItGo) {
    Peer peer = attach(true, true);
    attachments->forget(shell.program + 1);
    EXPECT_TRUE(attachments->has(shell));
    attachments->forget(shell.program);
    EXPECT_EQ(peer.read(), "<othe configuration has no such process any more>");
    EXPECT_TRUE(attachments->is_empty());
}

TEST_F(AttachmentsTest, UpgradeSendsThemAway) {
    Peer peer = attach(true, true);
    attachments->upgrading();
    EXPECT_EQ(peer.read(), "<u>");
    EXPECT_TRUE(peer.is_ended);
    EXPECT_TRUE(attachments->is_empty());
}

TEST_F(AttachmentsTest, WhoTakesNothingIsWaitedForAMomentAndThenLosesOutput) {
    Peer slow = attach();
    Peer quick = attach();
    std::string const piece(4096, 'x');
    while (!attachments->is_behind(shell)) {
        attachments->written(shell, piece);
        (void)quick.read();
    }
    until([&] { return rooms > 0; });
    EXPECT_FALSE(attachments->is_behind(shell));
    for (int i = 0; i < 100; ++i) {
        attachments->written(shell, piece);
        EXPECT_EQ(quick.read(), piece);
        EXPECT_FALSE(attachments->is_behind(shell));
    }
    std::string seen;
    until([&] { return (seen += slow.read()).ends_with(">"); });
    EXPECT_THAT(seen, testing::MatchesRegex("x+<l[0-9]+>"));
    attachments->written(shell, "and on");
    until([&] { return slow.read() == "and on"; });
}

TEST_F(AttachmentsTest, WhoKeepsUpSlowlyLosesNothing) {
    Peer slow = attach();
    std::string const piece(4096, 'x');
    std::size_t written = 0;
    std::size_t seen = 0;
    until([&] {
        for (; written < 100 * piece.size() && !attachments->is_behind(shell); written += piece.size())
            attachments->written(shell, piece);
        std::string const text = slow.read();
        EXPECT_EQ(text.find('<'), std::string::npos);
        seen += text.size();
        return seen == 100 * piece.size();
    });
}

TEST_F(AttachmentsTest, ProgramThatReadsNothingHoldsUpItsTyperAlone) {
    Peer peer = attach();
    std::string const keys(4096, 'k');
    std::size_t sent = 0;
    // Until neither the terminal nor the socket takes more.
    for (int rounds_without = 0; rounds_without < 20;) {
        std::string bytes;
        append_attach_frame(bytes, AttachFrame::data, keys);
        ssize_t const size = ::send(peer.fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (size == static_cast<ssize_t>(bytes.size())) {
            sent += keys.size();
            rounds_without = 0;
        } else if (size > 0) {
            FAIL() << "half a frame";
        } else {
            ++rounds_without;
        }
        until([turn = 0]() mutable { return ++turn > 2; });
        ASSERT_LT(sent, std::size_t{8} << 20);
    }
    attachments->written(shell, "still shown");
    EXPECT_EQ(peer.read(), "still shown");
    std::size_t received = 0;
    until([&] { return (received += typed().size()) == sent; });
}

TEST_F(AttachmentsTest, PlaceOfWhoHasGoneIsFree) {
    EXPECT_TRUE(attachments->make_place());
    Peer one = attach();
    Peer two = attach();
    EXPECT_FALSE(attachments->make_place());
    one.fd = {};
    EXPECT_TRUE(attachments->make_place());
    EXPECT_EQ(closed, 1);
}

TEST_F(AttachmentsTest, WhoTakesNothingForLongGivesWay) {
    limits.replaceable = 20ms;
    attachments = make();
    Peer stuck = attach();
    Peer reader = attach();
    for (int i = 0; i < 200; ++i) {
        attachments->written(shell, std::string(4096, 'x'));
        (void)reader.read();
    }
    until([&] { return attachments->make_place(); });
    attachments->written(shell, "on");
    EXPECT_EQ(reader.read(), "on");
}

TEST_F(AttachmentsTest, WhatIsNotAFrameEndsItsConnection) {
    Peer peer = attach();
    peer.raw("GET / HTTP/1.1\r\n\r\n");
    until([&] {
        (void)peer.read();
        return closed == 1;
    });
    EXPECT_TRUE(attachments->is_empty());
}

TEST_F(AttachmentsTest, DescriptorsAreNotTaken) {
    Peer peer = attach();
    char byte = 'd';
    iovec content{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    *reinterpret_cast<int*>(CMSG_DATA(header)) = STDERR_FILENO;
    ASSERT_EQ(::sendmsg(peer.fd.get(), &message, MSG_NOSIGNAL), 1);
    until([&] { return closed == 1; });
}

TEST(PseudoTerminal, HasItsSizeAndTellsOfIt) {
    auto const terminal = open_pseudo_terminal({11, 40}, ::geteuid());
    ASSERT_TRUE(terminal) << terminal.error().text();
    winsize size{};
    ASSERT_EQ(::ioctl(terminal->slave.get(), TIOCGWINSZ, &size), 0);
    EXPECT_EQ(size.ws_row, 11);
    EXPECT_EQ(size.ws_col, 40);
    EXPECT_EQ(::isatty(terminal->slave.get()), 1);
    EXPECT_EQ(::fcntl(terminal->slave.get(), F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(::fcntl(terminal->master.get(), F_GETFD), FD_CLOEXEC);
    show_in(terminal->master.get(), {11, 40}, true);
    ASSERT_EQ(::ioctl(terminal->slave.get(), TIOCGWINSZ, &size), 0);
    EXPECT_EQ(size.ws_row, 11);
}

}  // namespace

}  // namespace triton::launcher
