#pragma once

#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/base/unique_fd.h"
#include "lib/net/loop.h"

namespace triton::tests {

/// Clients of servers that run in a loop of the same thread: they say and read when the test tells them to. The sockets
/// have names that only the kernel knows.
class HttpTalk {
protected:
    /// A new listening socket, to which ask() and connect() go from now on; `place` is another one of these.
    UniqueFd listening(std::size_t place = 0) {
        if (addresses_.size() <= place) addresses_.resize(place + 1);
        UniqueFd socket = make_socket();
        Name& name = addresses_[place];
        name.address.sun_family = AF_UNIX;
        name.size = sizeof name.address;
        auto* const address = reinterpret_cast<sockaddr*>(&name.address);
        EXPECT_EQ(::bind(socket.get(), address, sizeof(sa_family_t)), 0);
        EXPECT_EQ(::listen(socket.get(), 64), 0);
        EXPECT_EQ(::getsockname(socket.get(), address, &name.size), 0);
        return socket;
    }

    int connect(std::size_t place = 0) {
        UniqueFd client = make_socket();
        Name& name = addresses_.at(place);
        EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&name.address), name.size), 0);
        clients.push_back(std::move(client));
        return clients.back().get();
    }
    int ask(std::string const& target, std::string const& fields = "Host: localhost\r\n", std::size_t place = 0) {
        int const client = connect(place);
        say(client, "GET " + target + " HTTP/1.1\r\n" + fields + "\r\n");
        return client;
    }
    static void say(int client, std::string const& text) {
        EXPECT_EQ(::send(client, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    }

    /// Lets the servers work until `is_enough`, or the time of a broken test is over.
    void run_until(std::function<bool()> const& is_enough) {
        using namespace std::chrono_literals;
        loop.restart();
        for (auto const end = std::chrono::steady_clock::now() + 20s; !is_enough();) {
            loop.run_one_for(10ms);
            if (std::chrono::steady_clock::now() >= end) throw std::runtime_error("no end");
        }
    }
    /// All that can be done without waiting.
    void run_ready() {
        loop.restart();
        loop.poll();
    }
    /// What is there to read is added. Returns whether more may come.
    static bool take(int client, std::string& into) {
        std::array<char, 65536> buffer;
        for (;;) {
            ssize_t const size = ::recv(client, buffer.data(), buffer.size(), 0);
            if (size <= 0) return size < 0 && errno == EAGAIN;
            into.append(buffer.data(), static_cast<std::size_t>(size));
        }
    }
    std::string read_until(int client, std::string const& end) {
        std::string read;
        run_until([&] { return !take(client, read) || read.ends_with(end); });
        EXPECT_THAT(read, testing::EndsWith(end));
        return read;
    }
    std::string read_all(int client) {
        std::string read;
        run_until([&] { return !take(client, read); });
        return read;
    }

    net::Loop loop;
    std::vector<UniqueFd> clients;

private:
    struct Name {
        sockaddr_un address{};
        socklen_t size = 0;
    };
    static UniqueFd make_socket() { return UniqueFd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)}; }
    std::vector<Name> addresses_;
};

}  // namespace triton::tests
