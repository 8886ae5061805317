#include "host/info/client/client.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace triton::info {
namespace {

using namespace std::chrono_literals;

/// Listens on a socket in a directory of its own. answer_with() serves one client.
class FakeServer {
public:
    FakeServer() {
        char path[] = "/tmp/info-client-XXXXXX";
        directory_ = ::mkdtemp(path);
        listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
        socket().copy(address.sun_path, sizeof address.sun_path - 1);
        EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(::listen(listener_.get(), 8), 0);
    }
    FakeServer(FakeServer const&) = delete;
    FakeServer& operator=(FakeServer const&) = delete;
    ~FakeServer() {
        if (thread_.joinable()) thread_.join();
        std::filesystem::remove_all(directory_);
    }

    [[nodiscard]] std::string socket() const { return directory_ + "/socket"; }
    [[nodiscard]] std::string request() {
        thread_.join();
        return request_;
    }
    void stop_listening() { listener_ = {}; }

    /// Reads a request, writes these bytes, and closes; `stays`: or does so when the client has.
    void answer_with(std::string bytes, bool stays = false) {
        thread_ = std::thread([this, bytes = std::move(bytes), stays] {
            UniqueFd const client(::accept(listener_.get(), nullptr, nullptr));
            std::array<char, 4096> room{};
            while (request_.find("\r\n\r\n") == std::string::npos) {
                ssize_t const size = ::recv(client.get(), room.data(), room.size(), 0);
                if (size <= 0) return;
                request_.append(room.data(), static_cast<std::size_t>(size));
            }
            (void)::send(client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
            while (stays && ::recv(client.get(), room.data(), room.size(), 0) > 0) {
            }
        });
    }

private:
    std::string directory_;
    UniqueFd listener_;
    std::thread thread_;
    std::string request_;
};

std::string answer(std::string const& head, std::string const& body) {
    return "HTTP/1.1 " + head + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST(InfoClient, GetsAnAnswer) {
    FakeServer server;
    server.answer_with(answer("200 OK", "[]"));
    Client const client(server.socket(), "vmadm/1 (a\r\nb)");
    EXPECT_TRUE(client.has_socket());
    EXPECT_EQ(client.get("/vms?fields=uuid", 100).value_or("?"), "[]");
    EXPECT_EQ(server.request(),
              "GET /vms?fields=uuid HTTP/1.1\r\nHost: localhost\r\nUser-Agent: vmadm/1 (a??b)\r\n"
              "Accept: application/x-ndjson, application/json, */*\r\nConnection: close\r\n\r\n");
}

TEST(InfoClient, SaysWhatAStatusMeans) {
    struct Row {
        std::string head, body;
        ErrorKind kind;
        std::string text;
    };
    Row const rows[] = {
        {"404 Not Found", "VM Not Found: x\n", ErrorKind::not_found, "VM Not Found: x"},
        {"404 Not Found", "Unsupported URL Path\n", ErrorKind::unsupported,
         "vminfod answers 404: Unsupported URL Path"},
        {"400 Bad Request", "Invalid filter key: \"x\"\nmore", ErrorKind::invalid,
         "vminfod answers 400: Invalid filter key: \"x\""},
        {"403 Forbidden", "needs the Unix socket", ErrorKind::refused, "vminfod answers 403: needs the Unix socket"},
        {"503 Busy", "", ErrorKind::busy, "vminfod answers 503"},
        {"500 Oh", "", ErrorKind::unsupported, "vminfod answers 500"},
        {"302 Found", "", ErrorKind::unsupported, "vminfod answers 302"},
    };
    for (Row const& row : rows) {
        FakeServer server;
        server.answer_with(answer(row.head, row.body));
        auto const got = Client(server.socket(), "test").get("/", 100);
        ASSERT_FALSE(got);
        EXPECT_EQ(got.error().kind, row.kind) << row.head;
        EXPECT_EQ(got.error().text(), row.text);
    }
}

TEST(InfoClient, AMissingServerIsUnavailable) {
    FakeServer server;
    server.stop_listening();
    auto const refused = Client(server.socket(), "test").get("/", 100);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
    EXPECT_EQ(refused.error().text(), "cannot reach vminfod on " + server.socket() + ": Connection refused");

    Client const nowhere(server.socket() + ".not", "test");
    EXPECT_FALSE(nowhere.has_socket());
    auto const missing = nowhere.get("/", 100);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().kind, ErrorKind::unavailable);
    EXPECT_EQ(missing.error().text(), "cannot reach vminfod on " + server.socket() + ".not: No such file or directory");
}

TEST(InfoClient, AServerThatHangsIsNotWaitedFor) {
    FakeServer accepts_nobody;
    auto const silent = Client(accepts_nobody.socket(), "test").get("/", 100, {.start = 50ms, .whole = 50ms});
    ASSERT_FALSE(silent);
    EXPECT_EQ(silent.error().kind, ErrorKind::timeout);
    EXPECT_EQ(silent.error().text(), "vminfod does not answer");

    FakeServer stops;
    stops.answer_with("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", true);
    auto const half = Client(stops.socket(), "test").get("/", 100, {.start = 50ms, .whole = 100ms});
    ASSERT_FALSE(half);
    EXPECT_EQ(half.error().kind, ErrorKind::timeout);
}

TEST(InfoClient, AnAnswerThatDoesNotEndIsCut) {
    FakeServer server;
    server.answer_with("HTTP/1.1 200 OK\r\n\r\n" + std::string(2000, 'x'), true);
    auto const got = Client(server.socket(), "test").get("/", 1000);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().kind, ErrorKind::corrupt);
    EXPECT_EQ(got.error().text(), "cannot read the answer of vminfod: it is longer than 1000 bytes");
}

TEST(InfoClient, APathMayBeLongerThanAnAddress) {
    FakeServer server;
    server.answer_with(answer("200 OK", "pong"));
    std::string const detour = std::filesystem::path(server.socket()).parent_path().string() + std::string(60, '/');
    EXPECT_EQ(Client(detour + std::string(60, '/') + "socket", "test").get("/ping", 100).value_or("?"), "pong");
}

TEST(InfoClient, FollowsLinesUntilSomebodyHasEnough) {
    FakeServer server;
    server.answer_with(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\none\ntw\r\n3\r\no\n\n\r\n6\r\nthree\n\r\n", true);
    std::vector<std::string> lines;
    auto const followed = Client(server.socket(), "test").follow("/events", {}, [&lines](std::string_view line) {
        lines.emplace_back(line);
        return line != "three";
    });
    EXPECT_TRUE(followed);
    EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "", "three"}));
}

TEST(InfoClient, TheEndOfEventsIsAnError) {
    std::string const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n";
    for (std::string const& ending : {std::string(), std::string("0\r\n\r\n"), std::string("3\r\nt")}) {
        FakeServer server;
        server.answer_with(chunked + ending);
        std::size_t count = 0;
        auto const followed =
            Client(server.socket(), "test").follow("/events", {}, [&count](std::string_view) { return ++count < 9; });
        ASSERT_FALSE(followed);
        EXPECT_EQ(followed.error().kind, ErrorKind::unavailable);
        EXPECT_EQ(followed.error().text(), "VminfodEventStream ended prematurely");
        EXPECT_EQ(count, 1U);
    }
}

TEST(InfoClient, SilenceAndDeadlinesEndAFollowing) {
    for (FollowLimits const& limits :
         {FollowLimits{.silence = 50ms}, FollowLimits{.deadline = std::chrono::steady_clock::now() + 50ms}}) {
        FakeServer server;
        server.answer_with("HTTP/1.1 200 OK\r\n\r\none\n", true);
        auto const followed =
            Client(server.socket(), "test").follow("/events", limits, [](std::string_view) { return true; });
        ASSERT_FALSE(followed);
        EXPECT_EQ(followed.error().kind, ErrorKind::timeout);
    }
}

TEST(InfoClient, AFollowingEndsWithItsReader) {
    FakeServer server;
    server.answer_with("HTTP/1.1 200 OK\r\n\r\none\n", true);
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    UniqueFd reader(ends[0]);
    UniqueFd const writer(ends[1]);
    auto const followed =
        Client(server.socket(), "test").follow("/events", {.reader = writer.get()}, [&reader](std::string_view) {
            reader = {};
            return true;
        });
    EXPECT_TRUE(followed);
}

TEST(InfoClient, ALineMayNotGrowForEver) {
    FakeServer server;
    server.answer_with("HTTP/1.1 200 OK\r\n\r\n" + std::string(2000, 'x'), true);
    auto const followed =
        Client(server.socket(), "test").follow("/events", {.longest_line = 1000}, [](std::string_view) {
            return true;
        });
    ASSERT_FALSE(followed);
    EXPECT_EQ(followed.error().text(), "cannot read the answer of vminfod: it is longer than 1000 bytes");
}

}  // namespace
}  // namespace triton::info
