#include "launcher/services/notify_receiver.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/helpers/slow_to_close.h"

namespace triton::launcher {

namespace {

using namespace std::chrono_literals;

Notification with(void (*set)(Notification&)) {
    Notification notification;
    set(notification);
    return notification;
}

TEST(ParseNotification, Assignments) {
    EXPECT_EQ(parse_notification("READY=1"), with([](Notification& n) { n.is_ready = true; }));
    EXPECT_EQ(parse_notification("READY=1\n"), with([](Notification& n) { n.is_ready = true; }));
    EXPECT_EQ(parse_notification("RELOADING=1\nMONOTONIC_USEC=5"),
              with([](Notification& n) { n.is_reloading = true; }));
    EXPECT_EQ(parse_notification("STOPPING=1"), with([](Notification& n) { n.is_stopping = true; }));
    EXPECT_EQ(parse_notification("WATCHDOG=1"), with([](Notification& n) { n.is_watchdog_ping = true; }));
    EXPECT_EQ(parse_notification("WATCHDOG=trigger"), with([](Notification& n) { n.is_watchdog_trigger = true; }));
    EXPECT_EQ(parse_notification("STATUS=all = well"), with([](Notification& n) { n.status = "all = well"; }));
    EXPECT_EQ(parse_notification("STATUS="), with([](Notification& n) { n.status = ""; }));
    EXPECT_EQ(parse_notification("EXTEND_TIMEOUT_USEC=1500000"),
              with([](Notification& n) { n.extend_timeout = 1500ms; }));
    EXPECT_EQ(parse_notification("STATUS=a\nREADY=1\n\nMAINPID=7\nFDSTORE=1\nBARRIER=1\nSTATUS=b"),
              with([](Notification& n) {
                  n.is_ready = true;
                  n.status = "b";
              }));
}

TEST(ParseNotification, ExtensionIsAYearAtMost) {
    EXPECT_EQ(parse_notification("EXTEND_TIMEOUT_USEC=9223372036854775807"),
              with([](Notification& n) { n.extend_timeout = 24h * 366; }));
}

TEST(ParseNotification, WhatIsNoneSaysNothing) {
    for (std::string_view const text : {"", "\n\n", "READY=0", "READY=2", "READY=1 ", "ready=1", "READY", "=",
                                        "WATCHDOG=", "EXTEND_TIMEOUT_USEC=", "EXTEND_TIMEOUT_USEC=-1",
                                        "EXTEND_TIMEOUT_USEC=1s", "EXTEND_TIMEOUT_USEC=99999999999999999999"}) {
        EXPECT_EQ(parse_notification(text), Notification{}) << text;
    }
}

class NotifyReceiverTest : public testing::Test {
protected:
    static constexpr NotifyKey web{1, 1};
    static constexpr NotifyKey db{2, 7};

    NotifyReceiverTest() {
        char name[] = "/tmp/triton-notify.XXXXXX";
        directory = ::mkdtemp(name);
    }
    ~NotifyReceiverTest() override {
        receiver.reset();
        std::error_code ignored;
        std::filesystem::remove_all(directory, ignored);
    }

    std::unique_ptr<NotifyReceiver> make(std::string const& where) {
        return std::make_unique<NotifyReceiver>(
            *loop, quarantine, where,
            NotifyReceiver::Callbacks{
                [this](NotifyKey, NotifySender sender) {
                    senders.push_back(sender.pid);
                    return allowed;
                },
                [this](NotifyKey key, Notification const& notification) {
                    std::string text = std::to_string(key.program) + "." + std::to_string(key.process);
                    if (notification.is_ready) text += " ready";
                    if (notification.is_watchdog_ping) text += " ping";
                    if (notification.status) text.append(" ").append(*notification.status);
                    told.push_back(text);
                },
                [this](NotifyKey key, bool is_ready) {
                    told.push_back(std::to_string(key.program) + (is_ready ? " ready" : " ended"));
                }});
    }
    char const* open(NotifyKey key, NotifyReceiver::SocketSettings const& settings = {}) {
        auto const address = receiver->open_socket(key, settings);
        EXPECT_TRUE(address) << address.error().text();
        return address.value_or("");
    }
    UniqueFd open_pipe(NotifyKey key) {
        auto pipe = receiver->open_pipe(key);
        EXPECT_TRUE(pipe) << pipe.error().text();
        return std::move(*pipe);
    }
    /// As sd_notify(3) does, with a descriptor if there is one. Returns 0 or the errno.
    static int send(char const* address, std::string_view text, int descriptor = -1) {
        UniqueFd const socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
        sockaddr_un to{};
        to.sun_family = AF_UNIX;
        std::string_view const name = address;
        name.copy(to.sun_path, sizeof to.sun_path);
        if (name.starts_with('@')) to.sun_path[0] = '\0';
        iovec part{const_cast<char*>(text.data()), text.size()};
        msghdr message{};
        message.msg_name = &to;
        message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
        if (descriptor >= 0) {
            message.msg_control = control.data();
            message.msg_controllen = control.size();
            cmsghdr* const header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(sizeof(int));
            std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
        }
        return ::sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0 ? errno : 0;
    }
    void run_until(std::function<bool()> const& is_done) {
        int beat[2] = {-1, -1};  // always readable, so that rounds never end
        ASSERT_EQ(::pipe2(beat, O_CLOEXEC), 0);
        UniqueFd const read_end{beat[0]};
        UniqueFd const write_end{beat[1]};
        ASSERT_EQ(::write(write_end.get(), "x", 1), 1);
        TimePoint const limit = std::chrono::steady_clock::now() + 10s;
        auto const watch = loop->on_readable(read_end.get(), [&] {
            if (is_done() || std::chrono::steady_clock::now() > limit) loop->stop();
        });
        ASSERT_TRUE(loop->run());
        EXPECT_TRUE(is_done());
    }
    void run_dry() {
        int rounds = 0;
        run_until([&rounds] { return ++rounds > 5; });
    }

    using Texts = std::vector<std::string>;
    std::string directory;
    std::unique_ptr<EventLoop> loop_before;  // of a test with an upgrade; it outlives `quarantine`
    std::unique_ptr<EventLoop> loop = std::move(*EventLoop::create());
    process::Quarantine quarantine{*loop};
    bool allowed = true;
    Texts told;
    std::vector<pid_t> senders;
    std::unique_ptr<NotifyReceiver> receiver;
};

TEST_F(NotifyReceiverTest, HearsByAPath) {
    receiver = make(directory);
    std::string const address = open(web);
    EXPECT_EQ(address, directory + "/notify.1.1");
    struct stat status{};
    ASSERT_EQ(::lstat(address.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, ::geteuid() == 0 ? 0622 : 0600);
    EXPECT_EQ(open(web), address);  // stays over restarts
    EXPECT_NE(open(db), address);
    EXPECT_EQ(send(address.c_str(), "READY=1\nSTATUS=fine"), 0);
    EXPECT_EQ(send(open(db), "WATCHDOG=1"), 0);
    run_until([this] { return told.size() == 2; });
    std::ranges::sort(told);
    EXPECT_EQ(told, (Texts{"1.1 ready fine", "2.7 ping"}));
    EXPECT_EQ(senders, (std::vector<pid_t>{::getpid(), ::getpid()}));
    receiver.reset();
    EXPECT_FALSE(std::filesystem::exists(address));
}

TEST_F(NotifyReceiverTest, HearsByAnAbstractNameWhereThereIsNoDirectory) {
    for (std::string const& where :
         {std::string(), directory + "/none/none/none", directory + '/' + std::string(200, 'x')}) {
        receiver = make(where);
        char const* const address = open(web);
        ASSERT_EQ(address[0], '@');
        told.clear();
        EXPECT_EQ(send(address, "READY=1"), 0);
        run_until([this] { return told.size() == 1; });
        EXPECT_EQ(told, Texts{"1.1 ready"});
    }
}

TEST_F(NotifyReceiverTest, MakesItsDirectoryForItselfAlone) {
    mode_t const umask = ::umask(077);
    receiver = make(directory + "/own");
    EXPECT_FALSE(std::filesystem::exists(directory + "/own"));  // not before it is needed
    EXPECT_EQ(open(web), directory + "/own/notify.1.1");
    ::umask(umask);
    struct stat status{};
    ASSERT_EQ(::lstat((directory + "/own").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0711);
    EXPECT_EQ(send(open(web), "READY=1"), 0);
    run_until([this] { return !told.empty(); });
}

/// The first program of a container starts before the control socket, which makes that directory, too.
TEST_F(NotifyReceiverTest, MakesTheDirectoryAboveIt) {
    mode_t const umask = ::umask(077);
    receiver = make(directory + "/triton-launch/notify");
    EXPECT_EQ(open(web), directory + "/triton-launch/notify/notify.1.1");
    ::umask(umask);
    struct stat status{};
    ASSERT_EQ(::lstat((directory + "/triton-launch").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0755);
}

TEST_F(NotifyReceiverTest, UsesNoDirectoryThatOthersMayWriteTo) {
    ASSERT_EQ(::mkdir((directory + "/shared").c_str(), 0700), 0);
    ASSERT_EQ(::chmod((directory + "/shared").c_str(), 0777), 0);
    receiver = make(directory + "/shared");
    EXPECT_EQ(open(web)[0], '@');
    receiver = make(directory + "/shared/own");  // which they could rename
    EXPECT_EQ(open(web)[0], '@');
    ASSERT_EQ(::symlink("..", (directory + "/link").c_str()), 0);
    receiver = make(directory + "/link");
    EXPECT_EQ(open(web)[0], '@');
}

TEST_F(NotifyReceiverTest, LeavesTheSocketOfAnotherLauncherAlone) {
    receiver = make(directory);
    std::string const address = open(web);
    auto const other = make(directory);
    EXPECT_EQ((*other->open_socket({1, 1}, {}))[0], '@');
    EXPECT_EQ(send(address.c_str(), "READY=1"), 0);
    run_until([this] { return !told.empty(); });
}

TEST_F(NotifyReceiverTest, ProcessWithItsOwnRootGetsAnAbstractName) {
    receiver = make(directory);
    EXPECT_EQ(open(web, {.has_own_root = true})[0], '@');
    EXPECT_TRUE(std::filesystem::is_empty(directory));
}

TEST_F(NotifyReceiverTest, NameThatIsLeftOverIsReplaced) {
    {
        ASSERT_EQ(::mkfifo((directory + "/notify.1.1").c_str(), 0600), 0);
    }
    receiver = make(directory);
    EXPECT_EQ(open(web)[0], '/');
    EXPECT_EQ(send(open(web), "READY=1"), 0);
    run_until([this] { return !told.empty(); });
}

TEST_F(NotifyReceiverTest, SocketBelongsToTheUserOfTheProcess) {
    if (::getuid() != 0) GTEST_SKIP() << "needs root";
    receiver = make(directory);
    std::string const address = open(web, {.has_own_root = false, .user = 4711, .group = 4712});
    struct stat status{};
    ASSERT_EQ(::lstat(address.c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, 4711);
    EXPECT_EQ(status.st_gid, 4712);
    EXPECT_EQ(status.st_mode & 07777, 0600);
}

/// A configuration may give the program another user between two starts.
TEST_F(NotifyReceiverTest, AnotherUserGetsAnotherSocket) {
    if (::getuid() != 0) GTEST_SKIP() << "needs root";
    receiver = make(directory);
    std::string const address = open(web);
    for (std::optional<uid_t> const user :
         {std::optional<uid_t>(4711), std::optional<uid_t>(4713), std::optional<uid_t>()}) {
        EXPECT_EQ(open(web, {.has_own_root = false, .user = user}), address);
        struct stat status{};
        ASSERT_EQ(::lstat(address.c_str(), &status), 0);
        EXPECT_EQ(status.st_uid, user.value_or(0));
        EXPECT_EQ(status.st_mode & 07777, user ? 0600 : 0622);
        told.clear();
        EXPECT_EQ(send(address.c_str(), "READY=1"), 0);
        run_until([this] { return !told.empty(); });
    }
}

TEST_F(NotifyReceiverTest, AnotherRootGetsAnotherSocket) {
    receiver = make(directory);
    std::string const path = open(web);
    std::string const abstract = open(web, {.has_own_root = true});
    EXPECT_EQ(abstract[0], '@');
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_EQ(open(web, {.has_own_root = true}), abstract);  // stays over restarts
    EXPECT_EQ(open(web), path);
    EXPECT_EQ(send(path.c_str(), "READY=1"), 0);
    run_until([this] { return !told.empty(); });
}

TEST_F(NotifyReceiverTest, SocketThatLostItsNameIsReplaced) {
    receiver = make(directory);
    std::string const path = open(web);
    ASSERT_EQ(::unlink(path.c_str()), 0);
    EXPECT_EQ(open(web), path);
    EXPECT_EQ(send(path.c_str(), "READY=1"), 0);
    run_until([this] { return !told.empty(); });
}

TEST_F(NotifyReceiverTest, WhoMaySpeakIsAskedEachTime) {
    receiver = make(directory);
    char const* const address = open(web);
    pid_t const child = ::fork();
    if (child == 0) ::_exit(send(address, "READY=1"));
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    allowed = false;
    run_until([this] { return !senders.empty(); });
    EXPECT_EQ(senders, std::vector<pid_t>{child});  // known although it is gone
    EXPECT_EQ(told, Texts{});
}

TEST_F(NotifyReceiverTest, DescriptorsThatComeAreClosed) {
    receiver = make(directory);
    int ends[2] = {-1, -1};
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    UniqueFd const read_end{ends[0]};
    UniqueFd write_end{ends[1]};
    EXPECT_EQ(send(open(web), "BARRIER=1", write_end.get()), 0);
    allowed = false;  // even of those who may not speak
    write_end = {};
    EXPECT_EQ(send(open(web), "READY=1"), 0);
    run_until([this] { return senders.size() == 2; });  // so the first one is gone
    char byte = 0;
    EXPECT_EQ(::read(read_end.get(), &byte, 1), 0);  // would wait if anybody held it
}

TEST_F(NotifyReceiverTest, WhatIsSlowToCloseHoldsNobodyUp) {
    receiver = make(directory);
    SlowToClose slow;
    EXPECT_EQ(send(open(web), "STATUS=slow", slow.fd()), 0);
    slow.let_go();
    EXPECT_EQ(send(open(web), "READY=1"), 0);
    EXPECT_EQ(send(open(db), "READY=1"), 0);
    run_until([this] { return told.size() == 3; });
    EXPECT_EQ(told[0], "1.1 slow");
    EXPECT_TRUE(slow.is_held_by_nobody());
}

TEST_F(NotifyReceiverTest, WhatIsSlowToCloseAndWasNeverReadHoldsNobodyUp) {
    receiver = make(directory);
    SlowToClose slow;
    EXPECT_EQ(send(open(web), "STATUS=1"), 0);
    EXPECT_EQ(send(open(web), "STATUS=2", slow.fd()), 0);
    slow.let_go();
    receiver->close(web);
    run_until([this] { return quarantine.is_idle(); });
    EXPECT_EQ(told, Texts{});
    EXPECT_TRUE(slow.is_held_by_nobody());
}

TEST_F(NotifyReceiverTest, DatagramThatIsTooLongIsNotTaken) {
    receiver = make(directory);
    char const* const address = open(web);
    EXPECT_EQ(send(address, "READY=1\nSTATUS=" + std::string(4096, 'x')), 0);
    EXPECT_EQ(send(address, ""), 0);
    EXPECT_EQ(send(address, "WATCHDOG=1"), 0);
    run_until([this] { return !told.empty(); });
    EXPECT_EQ(told, Texts{"1.1 ping"});
}

TEST_F(NotifyReceiverTest, WhatWasSaidBeforeTheEndIsHeard) {
    receiver = make(directory);
    UniqueFd const pipe = open_pipe(db);
    for (int i = 0; i < 5; ++i)
        EXPECT_EQ(send(open(web), "STATUS=" + std::to_string(i)), 0);
    EXPECT_EQ(::write(pipe.get(), "\n", 1), 1);
    receiver->process_ended(web);  // without a round of the loop
    receiver->process_ended(db);
    EXPECT_EQ(told, (Texts{"1.1 0", "1.1 1", "1.1 2", "1.1 3", "1.1 4", "2 ready"}));
}

TEST_F(NotifyReceiverTest, NewlineOnThePipeIsReadiness) {
    receiver = make("");
    UniqueFd const pipe = open_pipe(web);
    EXPECT_EQ(::write(pipe.get(), "not", 3), 3);
    run_dry();
    EXPECT_EQ(told, Texts{});
    EXPECT_EQ(::write(pipe.get(), "yet\n", 4), 4);
    run_until([this] { return !told.empty(); });
    EXPECT_EQ(told, Texts{"1 ready"});
    run_dry();
    EXPECT_EQ(told, Texts{"1 ready"});
}

TEST_F(NotifyReceiverTest, EndOfThePipeWithoutANewlineIsNone) {
    receiver = make("");
    {
        UniqueFd const pipe = open_pipe(web);
    }
    run_until([this] { return !told.empty(); });
    EXPECT_EQ(told, Texts{"1 ended"});
}

TEST_F(NotifyReceiverTest, NewStartHasANewPipe) {
    receiver = make("");
    UniqueFd const first = open_pipe(web);
    UniqueFd second = open_pipe(web);
    EXPECT_EQ(::write(second.get(), "\n", 1), 1);
    run_until([this] { return !told.empty(); });
    EXPECT_EQ(told, Texts{"1 ready"});
    // Of a process that ended: whoever has the pipe still says nothing about its successor.
    UniqueFd const third = open_pipe(web);
    receiver->process_ended(web);
    run_dry();
    EXPECT_EQ(told, Texts{"1 ready"});
}

TEST_F(NotifyReceiverTest, ClosedIsDeaf) {
    receiver = make(directory);
    std::string const address = open(web);
    receiver->close(web);
    EXPECT_EQ(send(address.c_str(), "READY=1"), ENOENT);
    receiver->close(web);
}

TEST_F(NotifyReceiverTest, UpgradeKeepsAddressesAndWhatWaits) {
    receiver = make(directory);
    std::string const path = open(web);
    std::string const abstract = open(db, {.has_own_root = true});
    UniqueFd const pipe = open_pipe(db);
    EXPECT_EQ(send(path.c_str(), "READY=1"), 0);
    NotifyState state = receiver->export_state();
    for (NotifyState::Socket& saved : state.sockets)
        saved.fd = ::fcntl(saved.fd, F_DUPFD, 0);  // as execve(2) leaves it: not close-on-exec
    for (NotifyState::Pipe& saved : state.pipes)
        saved.fd = ::fcntl(saved.fd, F_DUPFD, 0);
    // An execve(2) would not have closed anything: the one before stays, in a loop that nobody runs.
    loop_before = std::exchange(loop, std::move(*EventLoop::create()));
    auto const before = std::exchange(receiver, make(directory));
    ASSERT_TRUE(receiver->import_state(state));
    EXPECT_EQ(open(web), path);
    EXPECT_EQ(open(db, {.has_own_root = true}), abstract);
    EXPECT_EQ(::fcntl(state.sockets[0].fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(send(abstract.c_str(), "WATCHDOG=1"), 0);
    EXPECT_EQ(::write(pipe.get(), "\n", 1), 1);
    run_until([this] { return told.size() == 3; });
    std::ranges::sort(told);
    EXPECT_EQ(told, (Texts{"1.1 ready", "2 ready", "2.7 ping"}));
    receiver.reset();
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(NotifyReceiverTest, UpgradeToOneThatCannotHearIsAnError) {
    receiver = make(directory);
    NotifyState state;
    state.pipes.push_back({web, -1});
    EXPECT_FALSE(receiver->import_state(state));
}

}  // namespace

}  // namespace triton::launcher
