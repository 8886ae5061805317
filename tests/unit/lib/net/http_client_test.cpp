// The client of HTTP against servers that say what the test says, byte by byte.

#include "lib/net/http_client.h"

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace triton::net {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

UniqueFd listening(std::uint16_t& port) {
    UniqueFd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket.get(), 16), 0);
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    return socket;
}

/// Answers each connection by scripts of whoever tests: one piece for each question of it. A connection ends after its
/// last piece.
class Server {
public:
    explicit Server(Loop& loop) : loop_(loop), listener_(loop, listening(port)) { spawn(loop, accept()); }

    std::uint16_t port = 0;
    std::deque<std::vector<std::string>> scripts;  // of the next connections
    bool keeps_open = false;                       // after the last piece
    std::vector<std::string> questions;
    int accepted = 0;

private:
    Task<> accept() {
        while (co_await listener_.wait_readable()) {
            UniqueFd socket{::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
            if (!socket || scripts.empty()) continue;
            ++accepted;
            auto transport = Transport::adopt(loop_, std::move(socket));
            EXPECT_TRUE(transport);
            spawn(loop_, serve(std::move(*transport), std::move(scripts.front())));
            scripts.pop_front();
        }
    }
    Task<> serve(std::unique_ptr<Transport> transport, std::vector<std::string> pieces) {
        std::array<char, 4096> buffer;
        for (std::string const& piece : pieces) {
            std::string question;
            while (question.find("\r\n\r\n") == question.npos) {
                std::size_t const size = co_await transport->read_some(buffer);
                if (size == 0) co_return;
                question.append(buffer.data(), size);
            }
            questions.push_back(question);
            if (!co_await transport->write(piece)) co_return;
        }
        if (keeps_open) (void)co_await transport->read_some(buffer);
    }

    Loop& loop_;
    Descriptor listener_;
};

class HttpClientTest : public testing::Test {
protected:
    ~HttpClientTest() override {
        client.reset();
        loop.poll();
    }
    HttpClient& subject() {
        if (!client) client.emplace(loop, HttpOrigin{"127.0.0.1", server.port}, HttpClient::Context(), limits);
        return *client;
    }
    /// Runs until it is done, or a failure.
    template <class T>
    T run(Task<T> task) {
        std::optional<T> result;
        spawn(loop, [](Task<T> what, std::optional<T>& into) -> Task<> {
            into = co_await std::move(what);
        }(std::move(task), result));
        loop.restart();
        for (auto const end = std::chrono::steady_clock::now() + 20s; !result;) {
            loop.run_one_until(end);
            if (std::chrono::steady_clock::now() >= end) throw std::runtime_error("no end");
        }
        return std::move(*result);
    }
    Result<HttpAnswer> ask(std::string const& target = "/") {
        HttpQuestion question;
        question.target = target;
        return run(subject().ask(std::move(question)));
    }
    std::string failure_for(std::string const& answer) {
        server.scripts.push_back({answer});
        auto const result = ask();
        if (result) return "status " + std::to_string(result->status);
        return result.error().text();
    }
    [[nodiscard]] std::string place() const { return "127.0.0.1:" + std::to_string(server.port) + ": "; }

    Loop loop{1};
    Server server{loop};
    HttpClientLimits limits;
    std::optional<HttpClient> client;
};

constexpr char const* hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Kind: word\r\n\r\nhello";

TEST_F(HttpClientTest, AsksAndKeepsItsConnection) {
    server.scripts = {{hello, hello}};
    auto answer = ask("/one?two=3");
    ASSERT_TRUE(answer) << answer.error().text();
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, "hello");
    EXPECT_EQ(answer->field("x-kind"), "word");
    EXPECT_EQ(answer->field("y"), "");
    EXPECT_EQ(server.questions[0],
              "GET /one?two=3 HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(server.port) + "\r\n\r\n");
    ASSERT_TRUE(ask());
    EXPECT_EQ(server.accepted, 1);
}

/// Servers end connections that they have kept for long. The question has not come to them then.
TEST_F(HttpClientTest, AKeptConnectionThatHasEndedIsReplacedOnce) {
    server.scripts = {{hello}, {hello}, {""}};
    ASSERT_TRUE(ask());
    ASSERT_TRUE(ask());
    EXPECT_EQ(server.accepted, 2);
    auto const third = ask();
    ASSERT_FALSE(third);
    EXPECT_EQ(third.error().text(), place() + "the connection ended before the answer did");
    EXPECT_EQ(third.error().kind, ErrorKind::unavailable);
}

TEST_F(HttpClientTest, SaysWhatIsWrongWithAnAnswer) {
    EXPECT_EQ(failure_for("nonsense\r\n\r\n"), place() + "the answer is not HTTP");
    EXPECT_EQ(failure_for("HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'y') + "\r\n\r\n"),
              place() + "the answer is too long");
    EXPECT_EQ(failure_for("HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n"),
              place() + "the answer is too long");
    EXPECT_EQ(failure_for("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello"),
              place() + "the connection ended before the answer did");
    EXPECT_EQ(failure_for("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), "status 404");
}

TEST_F(HttpClientTest, AnAnswerWithoutALengthEndsWithItsConnection) {
    server.scripts = {{"HTTP/1.1 200 OK\r\n\r\nall of it"}};
    auto const answer = ask();
    ASSERT_TRUE(answer) << answer.error().text();
    EXPECT_EQ(answer->body, "all of it");
}

TEST_F(HttpClientTest, DoesNotWaitForEver) {
    limits.answer = 10ms;
    server.keeps_open = true;
    EXPECT_EQ(failure_for("HTTP/1.1 200 OK\r\n"), place() + "no answer within 10ms");
}

TEST_F(HttpClientTest, NamesWhomItCannotConnectTo) {
    std::uint16_t closed = 0;
    (void)listening(closed);
    HttpClient other(loop, HttpOrigin{"127.0.0.1", closed}, {});
    auto const answer = run(other.ask({}));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().text(), "cannot connect to 127.0.0.1:" + std::to_string(closed) + ": Connection refused");
}

/// A line that came with the header, or with another one, is not kept back until more comes.
TEST_F(HttpClientTest, TellsLinesAsSoonAsTheyAreWhole) {
    server.keeps_open = true;
    server.scripts = {{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\none\ntwo\n\r\n4\r\nthre\r\n"}};
    std::vector<std::string> told;
    std::shared_ptr<HttpClient::Lines> lines;
    lines = std::make_shared<HttpClient::Lines>([&] { told.emplace_back("open"); },
                                                [&](std::string line) {
                                                    told.push_back(std::move(line));
                                                    if (told.size() == 3) lines->close();
                                                });
    auto const end = run(subject().follow(lines, {}));
    EXPECT_THAT(told, ElementsAre("open", "one", "two"));
}

TEST_F(HttpClientTest, TellsHowLinesHaveEnded) {
    server.scripts = {{"HTTP/1.1 200 OK\r\n\r\none\n"},
                      {"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\nwhy\n"},
                      {"HTTP/1.1 200 OK\r\n\r\n" + std::string(200, 'x')}};
    limits.body_bytes = 100;
    std::vector<std::string> told;
    auto const follow = [&] {
        auto const lines = std::make_shared<HttpClient::Lines>(
            [&] { told.emplace_back("open"); }, [&](std::string line) { told.push_back(std::move(line)); });
        return run(subject().follow(lines, {}));
    };
    auto ended = follow();
    ASSERT_TRUE(ended) << ended.error().text();
    EXPECT_EQ(ended->status, 200);
    EXPECT_THAT(told, ElementsAre("open", "one"));
    ended = follow();
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->status, 410);
    EXPECT_EQ(ended->body, "why\n");
    ended = follow();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().text(), place() + "a line is too long");
}

TEST_F(HttpClientTest, AStopEndsWhatIsUnderWay) {
    server.keeps_open = true;
    server.scripts = {{""}};
    Timer stop(loop);
    stop.call_at(std::chrono::steady_clock::now() + 5ms, [&] { subject().stop(); });
    auto const answer = ask();
    ASSERT_FALSE(answer);
    EXPECT_THAT(answer.error().text(), HasSubstr("canceled"));
    EXPECT_FALSE(ask());
}

TEST(HttpOrigin, HasAnAuthorityForHost) {
    EXPECT_EQ((HttpOrigin{"::1", 6443}.authority()), "[::1]:6443");
    EXPECT_EQ((HttpOrigin{"api.example.", 443}.authority()), "api.example:443");
}

}  // namespace
}  // namespace triton::net
