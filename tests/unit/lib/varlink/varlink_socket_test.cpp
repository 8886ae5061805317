#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/varlink/socket.h"

namespace triton::varlink {

namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class VarlinkSocketTest : public ::testing::Test {
protected:
    VarlinkSocketTest() {
        char name[] = "/tmp/triton-socket.XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        directory = name;
        path = directory + "/run/control";
    }
    ~VarlinkSocketTest() override { std::filesystem::remove_all(directory); }

    [[nodiscard]] bool answers() const {
        auto const address = socket_address(path);
        UniqueFd const fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        return address && ::connect(fd.get(), reinterpret_cast<sockaddr const*>(&*address), sizeof *address) == 0;
    }
    static mode_t mode_of(std::string const& file) {
        struct stat status{};
        EXPECT_EQ(::lstat(file.c_str(), &status), 0) << file;
        return status.st_mode & 07777;
    }

    std::string directory;
    std::string path;
};

TEST_F(VarlinkSocketTest, IsMadeWithItsDirectoryWhateverTheUmaskIs) {
    mode_t const umask = ::umask(0777);
    auto const listener = Listener::create(path, 0660, ::getegid());
    (void)::umask(umask);
    ASSERT_TRUE(listener) << listener.error().text();
    EXPECT_EQ(mode_of(path), 0660U);
    EXPECT_EQ(mode_of(directory + "/run"), 0755U);
    EXPECT_TRUE(answers());
    EXPECT_EQ(::fcntl(listener->fd(), F_GETFD), FD_CLOEXEC);
    EXPECT_NE(::fcntl(listener->fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(VarlinkSocketTest, IsRemovedAtTheEnd) {
    {
        auto const listener = Listener::create(path, 0600, {});
    }
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(VarlinkSocketTest, OneThatIsNotOursStays) {
    {
        auto const listener = Listener::create(path, 0600, {});
        std::filesystem::rename(path, path + ".old");
        std::ofstream(path) << "somebody else's";
    }
    EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(VarlinkSocketTest, ADeadOneIsReplacedALiveOneIsNot) {
    auto first = Listener::create(path, 0600, {});
    ASSERT_TRUE(first);
    auto const second = Listener::create(path, 0600, {});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().text(), ("cannot listen on " + path + ": another launcher does"));
    std::filesystem::rename(path, path + ".kept");  // as of a launcher that was killed
    {
        Listener const gone = std::move(*first);
    }
    std::filesystem::rename(path + ".kept", path);
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_FALSE(answers());
    auto const third = Listener::create(path, 0600, {});
    ASSERT_TRUE(third) << third.error().text();
    EXPECT_TRUE(answers());
}

TEST_F(VarlinkSocketTest, ALiveOneWithACrowdBeforeItIsNotReplaced) {
    auto const first = Listener::create(path, 0600, {});
    ASSERT_TRUE(first);
    std::vector<UniqueFd> crowd;
    auto const address = socket_address(path);
    for (;;) {
        crowd.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (::connect(crowd.back().get(), reinterpret_cast<sockaddr const*>(&*address), sizeof *address) != 0) break;
    }
    ASSERT_EQ(errno, EAGAIN);
    auto const second = Listener::create(path, 0600, {});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, ErrorKind::busy);
}

TEST_F(VarlinkSocketTest, WhatIsNoSocketIsLeftAlone) {
    std::filesystem::create_directory(directory + "/run");
    std::ofstream(path) << "precious";
    auto const listener = Listener::create(path, 0600, {});
    ASSERT_FALSE(listener);
    EXPECT_EQ(listener.error().text(), ("cannot listen on " + path + ": it exists and is not a socket"));
    EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(VarlinkSocketTest, WhatCannotBeMadeIsToldWithItsReason) {
    EXPECT_THAT(Listener::create(directory + "/a/b/control", 0600, {}).error().text(),
                HasSubstr("cannot make the directory " + directory + "/a/b: No such file or directory"));
    EXPECT_EQ(Listener::create("", 0600, {}).error().text(), "the path of the socket is empty");
    EXPECT_EQ(Listener::create(directory + "/" + std::string(108, 'x'), 0600, {}).error().code, ENAMETOOLONG);
}

TEST_F(VarlinkSocketTest, GoesThroughAnUpgrade) {
    std::optional<HandedSocket> handed;
    {
        auto before = Listener::create(path, 0600, {});
        ASSERT_TRUE(before);
        handed = before->socket();
        handed->fd = ::dup(handed->fd);                 // as an execve leaves it open
        std::filesystem::rename(path, path + ".kept");  // an execve removes nothing
    }
    std::filesystem::rename(path + ".kept", path);
    EXPECT_TRUE(answers());
    {
        auto const after = Listener::adopt(path, *handed);
        ASSERT_TRUE(after) << after.error().text();
        EXPECT_EQ(::fcntl(after->fd(), F_GETFD), FD_CLOEXEC);
        EXPECT_EQ(after->socket(), *handed);
        EXPECT_TRUE(answers());
    }
    EXPECT_FALSE(std::filesystem::exists(path));
}

// accept(2) returns when the client who woke us has gone meanwhile, or there is none: a service manager's sockets
// block.
TEST_F(VarlinkSocketTest, ASocketThatBlocksDoesNotBlockUs) {
    std::filesystem::create_directory(directory + "/run");
    sockaddr_un const address = *socket_address(path);
    int const fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr const*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(fd, 1), 0);
    auto const adopted = Listener::adopt(path, {.fd = fd});
    ASSERT_TRUE(adopted) << adopted.error().text();
    EXPECT_TRUE((::fcntl(adopted->fd(), F_GETFL) & O_NONBLOCK) != 0);
}

TEST_F(VarlinkSocketTest, AnythingElseIsNotTakenOver) {
    UniqueFd const file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    auto const adopted = Listener::adopt(path, {.fd = file.get()});
    ASSERT_FALSE(adopted);
    EXPECT_EQ(adopted.error().code, ENOTSOCK);
    EXPECT_GE(::fcntl(file.get(), F_GETFD), 0);  // still the caller's
}

}  // namespace

}  // namespace triton::varlink
