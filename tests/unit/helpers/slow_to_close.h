#pragma once

#include <array>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"

namespace triton {

/// A TCP socket whose last close(2) waits for ten minutes: it has SO_LINGER, and data that nobody reads.
/// Source: socket(7), SO_LINGER.
class SlowToClose {
public:
    SlowToClose() {
        UniqueFd const listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto* const generic = reinterpret_cast<sockaddr*>(&address);
        socklen_t size = sizeof address;
        EXPECT_EQ(::bind(listener.get(), generic, size), 0);
        EXPECT_EQ(::listen(listener.get(), 1), 0);
        EXPECT_EQ(::getsockname(listener.get(), generic, &size), 0);
        slow_ = UniqueFd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        EXPECT_EQ(::connect(slow_.get(), generic, size), 0);
        reader_ = UniqueFd{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
        std::array<char, 65536> const data{};
        while (::send(slow_.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
        }
        linger const ten_minutes{1, 600};
        EXPECT_EQ(::setsockopt(slow_.get(), SOL_SOCKET, SO_LINGER, &ten_minutes, sizeof ten_minutes), 0);
    }

    [[nodiscard]] int fd() const { return slow_.get(); }
    /// Closes ours, which must not be the last one.
    void let_go() { slow_ = {}; }
    /// Reads all that was sent, to the end that comes when nobody has the socket any more.
    [[nodiscard]] bool is_held_by_nobody() const {
        timeval const limit{10, 0};
        (void)::setsockopt(reader_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        std::array<char, 65536> data;
        ssize_t size = 0;
        do {
            size = ::read(reader_.get(), data.data(), data.size());
        } while (size > 0);
        return size == 0;
    }

private:
    UniqueFd slow_;
    UniqueFd reader_;
};

}  // namespace triton
