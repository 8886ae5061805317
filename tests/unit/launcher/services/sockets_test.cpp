#include "launcher/services/sockets.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

using config::SocketAddress;
using config::SocketKind;

class SocketTableTest : public testing::Test {
protected:
    SocketTableTest() {
        char name[] = "/tmp/triton-sockets.XXXXXX";
        directory = ::mkdtemp(name);
    }
    ~SocketTableTest() override {
        std::error_code ignored;
        std::filesystem::remove_all(directory, ignored);
    }

    static SocketRequest request(std::string_view listen) {
        auto address = config::parse_socket_address(listen);
        EXPECT_TRUE(address) << address.error();
        SocketRequest made;
        made.address = *address;
        made.place = "programs.web.sockets[0]";
        return made;
    }
    [[nodiscard]] SocketRequest at_path(std::string_view kind, std::string_view name = "s") const {
        return request(std::string(kind) + ":" + directory + "/" + std::string(name));
    }
    void open(SocketRequest const& request_) {
        auto const done = table.open({request_});
        ASSERT_TRUE(done) << done.error().text();
        ASSERT_GE(table.fd(request_.address), 0);
    }
    static mode_t mode_of(std::string const& path) {
        struct stat status{};
        EXPECT_EQ(::lstat(path.c_str(), &status), 0);
        return status.st_mode & 07777;
    }
    static std::uint16_t port_of(int fd) {
        sockaddr_in6 address{};  // the port stands at the same place for IPv4
        socklen_t length = sizeof address;
        EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
        return ntohs(address.sin6_port);
    }
    /// 0, or the errno of connect(2).
    static int connect_unix(std::string const& path, int type) {
        UniqueFd const fd{::socket(AF_UNIX, type | SOCK_CLOEXEC, 0)};
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        return ::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0 ? 0 : errno;
    }
    static int connect_ip4(std::uint16_t port, int type = SOCK_STREAM) {
        UniqueFd const fd{::socket(AF_INET, type | SOCK_CLOEXEC, 0)};
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return ::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0 ? 0 : errno;
    }
    static int connect_ip6(std::uint16_t port) {
        UniqueFd const fd{::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        sockaddr_in6 address{};
        address.sin6_family = AF_INET6;
        address.sin6_port = htons(port);
        address.sin6_addr = in6addr_loopback;
        return ::connect(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0 ? 0 : errno;
    }
    static bool has_ip6() {
        UniqueFd const fd{::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        sockaddr_in6 address{};
        address.sin6_family = AF_INET6;
        address.sin6_addr = in6addr_loopback;
        return fd && ::bind(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0;
    }
    /// As another process that listens there.
    static UniqueFd listener(std::string const& path, int type) {
        UniqueFd fd{::socket(AF_UNIX, type | SOCK_CLOEXEC, 0)};
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address), 0);
        EXPECT_TRUE(type != SOCK_STREAM || ::listen(fd.get(), 1) == 0);
        return fd;
    }

    std::string directory;
    SocketTable table;
};

TEST_F(SocketTableTest, ListensOnTcp) {
    SocketRequest const tcp = request("tcp:127.0.0.1:0");
    open(tcp);
    int const fd = table.fd(tcp.address);
    EXPECT_EQ(connect_ip4(port_of(fd)), 0);
    EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(SocketTableTest, EmptyHostIsBothFamiliesAndTheIp6OneIsIp6Only) {
    if (!has_ip6()) GTEST_SKIP() << "no IPv6 here";
    SocketRequest const both = request("tcp::0");
    open(both);
    EXPECT_EQ(connect_ip4(port_of(table.fd(both.address))), 0);
    EXPECT_EQ(connect_ip6(port_of(table.fd(both.address))), 0);
    SocketRequest const only = request("tcp:[::]:0");
    open(only);
    EXPECT_EQ(connect_ip6(port_of(table.fd(only.address))), 0);
    EXPECT_EQ(connect_ip4(port_of(table.fd(only.address))), ECONNREFUSED);
}

TEST_F(SocketTableTest, BindsUdp) {
    SocketRequest const udp = request("udp:127.0.0.1:0");
    open(udp);
    int type = 0;
    socklen_t length = sizeof type;
    EXPECT_EQ(::getsockopt(table.fd(udp.address), SOL_SOCKET, SO_TYPE, &type, &length), 0);
    EXPECT_EQ(type, SOCK_DGRAM);
    // Nobody else gets the port.
    SocketTable other;
    EXPECT_FALSE(other.open({request("udp:127.0.0.1:" + std::to_string(port_of(table.fd(udp.address))))}));
}

TEST_F(SocketTableTest, TakenPortIsAnErrorThatNamesThePlace) {
    SocketRequest const tcp = request("tcp:127.0.0.1:0");
    open(tcp);
    std::string const text = "tcp:127.0.0.1:" + std::to_string(port_of(table.fd(tcp.address)));
    SocketTable other;
    EXPECT_EQ(other.open({request(text)}).error().text(),
              ("programs.web.sockets[0]: cannot listen on " + text + ": Address already in use"));
}

TEST_F(SocketTableTest, ErrorLeavesNothingOpen) {
    SocketRequest const good = at_path("unix", "good");
    SocketRequest const kept = at_path("unix", "kept");
    open(kept);
    SocketRequest bad = at_path("unix", "no/directory");
    auto const done = table.open({good, kept, bad});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ENOENT);
    EXPECT_EQ(table.fd(good.address), -1);
    EXPECT_FALSE(std::filesystem::exists(good.address.path));
    EXPECT_EQ(connect_unix(kept.address.path, SOCK_STREAM), 0);
}

TEST_F(SocketTableTest, UnixSocketHasItsMode) {
    SocketRequest stream = at_path("unix");
    stream.mode = 0620;
    stream.user = ::getuid();
    stream.group = ::getgid();
    open(stream);
    EXPECT_EQ(mode_of(stream.address.path), 0620);
    EXPECT_EQ(connect_unix(stream.address.path, SOCK_STREAM), 0);
    // Set anew with a changed entry; the socket stays.
    int const fd = table.fd(stream.address);
    stream.mode = 0666;
    open(stream);
    EXPECT_EQ(mode_of(stream.address.path), 0666);
    EXPECT_EQ(table.fd(stream.address), fd);
}

TEST_F(SocketTableTest, StaleUnixSocketIsReplaced) {
    for (char const* const kind : {"unix", "unixgram"}) {
        int const type = std::string_view(kind) == "unix" ? SOCK_STREAM : SOCK_DGRAM;
        SocketRequest const asked = at_path(kind, kind);
        {
            UniqueFd const gone = listener(asked.address.path, type);
        }
        ASSERT_EQ(connect_unix(asked.address.path, type), ECONNREFUSED);
        open(asked);
        EXPECT_EQ(connect_unix(asked.address.path, type), 0);
    }
}

TEST_F(SocketTableTest, UnixSocketOfSomebodyElseIsNotReplaced) {
    SocketRequest const asked = at_path("unix");
    UniqueFd const other = listener(asked.address.path, SOCK_STREAM);
    EXPECT_EQ(table.open({asked}).error().code, EADDRINUSE);
    EXPECT_EQ(connect_unix(asked.address.path, SOCK_STREAM), 0);
    // Nor with another type, nor with a full queue.
    SocketRequest const datagrams = at_path("unixgram");
    EXPECT_EQ(table.open({datagrams}).error().code, EADDRINUSE);
    EXPECT_TRUE(std::filesystem::exists(asked.address.path));
}

TEST_F(SocketTableTest, FileInTheWayIsNotReplaced) {
    SocketRequest const asked = at_path("unix");
    {
        UniqueFd const file{::open(asked.address.path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)};
    }
    EXPECT_EQ(table.open({asked}).error().code, EADDRINUSE);
    EXPECT_TRUE(std::filesystem::is_regular_file(asked.address.path));
    EXPECT_EQ(table.open({at_path("fifo")}).error().code, EEXIST);
}

TEST_F(SocketTableTest, FifoNeverEnds) {
    SocketRequest fifo = at_path("fifo");
    fifo.mode = 0622;
    open(fifo);
    EXPECT_EQ(mode_of(fifo.address.path), 0622);
    int const fd = table.fd(fifo.address);
    EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    {
        UniqueFd const writer{::open(fifo.address.path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)};
        ASSERT_TRUE(writer);
        EXPECT_EQ(::write(writer.get(), "ab", 2), 2);
    }
    char buffer[4];
    EXPECT_EQ(::read(fd, buffer, sizeof buffer), 2);
    ASSERT_EQ(::fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    EXPECT_EQ(::read(fd, buffer, sizeof buffer), -1);
    EXPECT_EQ(errno, EAGAIN);  // and no end of file
}

TEST_F(SocketTableTest, FifoThatIsThereIsUsedAndStays) {
    SocketRequest const fifo = at_path("fifo");
    ASSERT_EQ(::mkfifo(fifo.address.path.c_str(), 0600), 0);
    open(fifo);
    table.keep_only({});
    EXPECT_EQ(table.fd(fifo.address), -1);
    EXPECT_TRUE(std::filesystem::is_fifo(fifo.address.path));
}

TEST_F(SocketTableTest, OneAddressIsOpenedOnce) {
    SocketRequest const tcp = request("tcp:127.0.0.1:0");
    SocketRequest again = tcp;
    again.place = "programs.db.sockets[1]";
    ASSERT_TRUE(table.open({tcp, again}));
    int const fd = table.fd(tcp.address);
    std::uint16_t const port = port_of(fd);
    ASSERT_TRUE(table.open({again}));
    table.keep_only({again});
    EXPECT_EQ(table.fd(tcp.address), fd);
    EXPECT_EQ(port_of(fd), port);
}

/// Linux takes one connection more than it is told (unix(7)). A socket that is open already follows its configuration.
TEST_F(SocketTableTest, SoManyMayWaitAsTheConfigurationSays) {
    SocketRequest stream = at_path("unix");
    int waiting = 0;
    for (int const backlog : {1, 3}) {
        stream.backlog = backlog;
        open(stream);
        while (waiting < 10 && connect_unix(stream.address.path, SOCK_STREAM | SOCK_NONBLOCK) == 0)
            ++waiting;
        EXPECT_EQ(waiting, backlog + 1);
    }
}

TEST_F(SocketTableTest, OwnNamesAreRemovedAtTheEnd) {
    SocketRequest const one = at_path("unix", "one");
    SocketRequest const two = at_path("unixgram", "two");
    SocketRequest const three = at_path("fifo", "three");
    {
        SocketTable other;
        ASSERT_TRUE(other.open({one, two, three}));
        other.keep_only({two, three});
        EXPECT_FALSE(std::filesystem::exists(one.address.path));
        // Somebody has put another one in its place.
        ASSERT_EQ(::unlink(two.address.path.c_str()), 0);
        UniqueFd const foreign = listener(two.address.path, SOCK_DGRAM);
    }
    EXPECT_TRUE(std::filesystem::exists(two.address.path));
    EXPECT_FALSE(std::filesystem::exists(three.address.path));
}

TEST_F(SocketTableTest, UpgradeKeepsThemOpen) {
    SocketRequest const stream = at_path("unix");
    open(stream);
    SocketState state = table.export_state();
    ASSERT_EQ(state.entries.size(), 1);
    state.entries[0].fd = ::fcntl(state.entries[0].fd, F_DUPFD, 0);  // as execve(2) leaves it: not close-on-exec
    {
        SocketTable next;
        next.import_state(state);
        ASSERT_TRUE(next.open({stream}));
        EXPECT_EQ(next.fd(stream.address), state.entries[0].fd);
        EXPECT_EQ(::fcntl(next.fd(stream.address), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        EXPECT_EQ(connect_unix(stream.address.path, SOCK_STREAM), 0);
    }
    EXPECT_FALSE(std::filesystem::exists(stream.address.path));  // still known to be ours
}

}  // namespace

}  // namespace triton::launcher
