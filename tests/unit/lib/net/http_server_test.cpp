// The server of HTTP over real sockets, seen by clients that read when the test says so: answers that go out piece by
// piece, and what a peer that takes nothing costs.

#include "lib/net/http_server.h"

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/helpers/http_talk.h"

namespace triton::net {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using namespace std::chrono_literals;

constexpr std::size_t large = 1 << 20;  // more than the kernel keeps for anybody here

HttpStream::Piece piece(std::string text) { return std::make_shared<std::string const>(std::move(text)); }

class HttpServerTest : public testing::Test, protected tests::HttpTalk {
protected:
    enum Route : std::uint8_t { now, text, shared, numbers, large_stream, forever, headers, held };

    ~HttpServerTest() override {
        clients.clear();
        bool has_stopped = !server;
        if (server) server->stop([&] { has_stopped = true; });
        run_until([&] { return has_stopped || figures.open_connections == 0; });
        run_ready();
    }

    void start() {
        auto made = HttpServer::create(settings, {loop,
                                                  router,
                                                  [this](HttpRequest const& request) { return answer(request); },
                                                  [this](std::size_t, unsigned status) { statuses.push_back(status); },
                                                  nullptr,
                                                  figures,
                                                  log,
                                                  {}});
        ASSERT_TRUE(made);
        server.emplace(std::move(*made));
        ASSERT_TRUE(server->listen(listening()));
    }

    Task<HttpResponse> answer(HttpRequest const& request) {
        HttpResponse response;
        switch (static_cast<Route>(request.match.route)) {
            case now:
            case text: response.body = "hello"; break;
            case shared:
                response.shared_body = document;
                response.tail = "\n";
                break;
            case numbers: response.stream = [](HttpStream& out) { return count(out); }; break;
            case large_stream: response.stream = [this](HttpStream& out) { return repeat(out); }; break;
            case forever:
                response.is_endless = true;
                response.stream = [this](HttpStream& out) { return follow(out); };
                break;
            case headers:
                response.fields = "\r\nX-Kept: yes";
                response.body = std::string(request.host) + "," + std::string(request.origin) + "," +
                                std::string(request.last_event_id) + "," + std::string(request.user_agent);
                break;
            case held:
                ++held_answers;
                co_await released.wait();
                response.body = "hello";
                break;
        }
        co_return response;
    }
    static Task<> count(HttpStream& out) {
        std::vector<HttpStream::Piece> pieces;  // GCC 12 destroys an array of them twice
        pieces.push_back(piece("one\n"));
        pieces.push_back(piece("two\n"));
        (void)co_await out.write(pieces);
        pieces.assign(1, piece(""));
        (void)co_await out.write(pieces);
        pieces.assign(1, piece("three\n"));
        (void)co_await out.write(pieces);
    }
    Task<> repeat(HttpStream& out) {
        std::span const all(&document, 1);
        for (bool goes_on = true; goes_on; goes_on = co_await out.write(all))
            ++written;
        ++broken;
    }
    Task<> follow(HttpStream& out) {
        auto const changed = std::make_shared<Condition>(loop);
        wake.push_back([changed] { changed->notify_all(); });
        out.limit_stalls(Duration::max());
        out.caller().when_gone([changed] { changed->notify_all(); });
        for (std::size_t next = 0; !out.caller().has_gone();) {
            if (next == events.size()) {
                co_await changed->wait();
                continue;
            }
            HttpStream::Piece const event = events[next++];
            std::span const one(&event, 1);
            if (!co_await out.write(one)) break;
        }
        ++broken;
    }
    void tell(HttpStream::Piece event) {
        events.push_back(std::move(event));
        for (auto const& call : wake)
            call();
    }

    HttpSettings settings;
    HttpFigures figures;
    HttpStream::Piece document = piece(std::string(large, 'x'));
    std::vector<HttpStream::Piece> events;
    std::vector<std::function<void()>> wake;
    std::vector<unsigned> statuses;
    std::size_t written = 0;
    std::size_t broken = 0;
    std::size_t held_answers = 0;
    Condition released{loop};
    std::optional<HttpServer> server;

private:
    HttpRouter router{{{"/now", HttpMethod::get, false, true},
                       {"/"},
                       {"/shared"},
                       {"/numbers"},
                       {"/large"},
                       {"/forever"},
                       {"/headers"},
                       {"/held"}}};
    static log::Log::Settings silent() {
        log::Log::Settings quiet;
        quiet.level = log::LogLevel::off;
        return quiet;
    }
    log::Log log{silent()};
};

TEST_F(HttpServerTest, StreamGoesOutInChunksAndTheConnectionGoesOn) {
    start();
    int const client = ask("/numbers");
    EXPECT_EQ(read_until(client, "0\r\n\r\n"),
              "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n"
              "Transfer-Encoding: chunked\r\n\r\n8\r\none\ntwo\n\r\n6\r\nthree\n\r\n0\r\n\r\n");
    say(client, "GET /now HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_THAT(read_until(client, "hello"), HasSubstr("Content-Length: 5\r\n"));
}

TEST_F(HttpServerTest, StreamOfTheOlderVersionEndsWithItsConnection) {
    start();
    int const client = connect();
    say(client, "GET /numbers HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(read_all(client),
              "HTTP/1.0 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n\r\n"
              "one\ntwo\nthree\n");
}

TEST_F(HttpServerTest, HeadOfAStreamHasNoBody) {
    start();
    int const client = connect();
    say(client, "HEAD /forever HTTP/1.1\r\nHost: h\r\n\r\nGET /now HTTP/1.1\r\nHost: h\r\n\r\n");
    std::string const read = read_until(client, "hello");
    EXPECT_THAT(read, HasSubstr("Transfer-Encoding: chunked\r\n\r\nHTTP/1.1 200 OK"));
    EXPECT_EQ(figures.open_streams, 0);
}

TEST_F(HttpServerTest, SharedBodyIsSentWhole) {
    start();
    std::string const read = read_until(ask("/shared"), "x\n");
    EXPECT_THAT(read, HasSubstr("Content-Length: 1048577\r\n\r\nxxx"));
    int const client = ask("/shared", "Host: h\r\nConnection: close\r\n");
    EXPECT_GT(read_all(client).size(), large);
}

TEST_F(HttpServerTest, RoutesSeeFurtherFieldsAndSetThem) {
    start();
    std::string const read =
        read_until(ask("/headers", "Host: a:1\r\nOrigin: http://b\r\nLast-Event-ID: 7\r\nUser-Agent: me\r\n"),
                   "a:1,http://b,7,me");
    EXPECT_THAT(read, HasSubstr("charset=utf-8\r\nX-Kept: yes\r\nCache-Control"));
    EXPECT_THAT(read_until(ask("http://evil:2/headers"), "evil:2,,,"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, SlashIsAPathOfItsOwn) {
    start();
    EXPECT_THAT(read_until(ask("/"), "hello"), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(read_until(ask("/other"), "Path not found\n"), StartsWith("HTTP/1.1 404"));
}

TEST_F(HttpServerTest, ManyRequestsAtOnceAreAnsweredInOrder) {
    start();
    int const client = connect();
    std::string all;
    for (int i = 0; i < 100; ++i)
        all += "GET /now HTTP/1.1\r\nHost: h\r\n\r\n";
    say(client, all + "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    (void)read_all(client);
    EXPECT_EQ(statuses.size(), 101);
}

TEST_F(HttpServerTest, ListenersGetWhatHappensUntilTheyGo) {
    start();
    int const client = ask("/forever");
    run_until([&] { return figures.open_streams == 1; });
    tell(piece("first\n"));
    EXPECT_THAT(read_until(client, "6\r\nfirst\n\r\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
    tell(piece("second\n"));
    EXPECT_EQ(read_until(client, "\n\r\n"), "7\r\nsecond\n\r\n");
    clients.clear();
    run_until([&] { return figures.open_streams == 0 && figures.open_connections == 0; });
    EXPECT_EQ(broken, 1);
}

TEST_F(HttpServerTest, StopEndsListenersInOrder) {
    start();
    int const client = ask("/forever");
    run_until([&] { return figures.open_streams == 1; });
    bool has_stopped = false;
    server->stop([&] { has_stopped = true; });
    EXPECT_THAT(read_all(client), EndsWith("\r\n\r\n0\r\n\r\n"));
    clients.clear();
    run_until([&] { return has_stopped; });
}

TEST_F(HttpServerTest, ListenersBeyondTheLimitAreToldToComeLater) {
    settings.limits.streams = 1;
    start();
    (void)ask("/forever");
    run_until([&] { return figures.open_streams == 1; });
    std::string const read = read_until(ask("/forever"), "too many listeners\n");
    EXPECT_THAT(read, StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
    EXPECT_THAT(read, HasSubstr("\r\nRetry-After: 1\r\n"));
    EXPECT_EQ(figures.refused_streams, 1);
    EXPECT_THAT(statuses, ElementsAre(200, 503));
}

TEST_F(HttpServerTest, AListenerThatReadsNothingGivesWay) {
    settings.limits.streams = 1;
    events.assign(3, document);
    start();
    (void)ask("/forever");
    run_until([&] { return figures.open_streams == 1; });
    run_ready();
    events.clear();
    int const other = ask("/forever");
    run_until([&] { return figures.evicted_streams == 1 && broken == 1; });
    tell(piece("news\n"));
    EXPECT_THAT(read_until(other, "news\n\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, AListenerMayReadNothingForAsLongAsNobodyElseWaits) {
    settings.limits.answer = 10ms;
    events.assign(3, document);
    start();
    int const client = ask("/forever");
    run_until([&] { return figures.open_streams == 1; });
    (void)ask("/large");
    run_until([&] { return broken == 1; });  // this one had a limit
    EXPECT_EQ(figures.open_streams, 1);
    tell(piece("last\n"));
    EXPECT_THAT(read_until(client, "last\n\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, TheLongAnswerThatBeganFirstGivesWay) {
    settings.limits.long_answers = 2;
    start();
    for (int i = 0; i < 4; ++i)
        (void)ask("/large");
    run_until([&] { return broken == 2 && figures.open_connections == 2; });
    EXPECT_EQ(figures.evicted_answers, 2);
    // None of them keeps anybody from what is quick.
    EXPECT_THAT(read_until(ask("/now"), "hello"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, ConnectionsThatTakeNothingGiveTheirSlotsUp) {
    settings.limits.connections = 3;
    start();
    for (int i = 0; i < 3; ++i)
        (void)ask("/shared");
    run_until([&] { return statuses.size() == 3; });
    EXPECT_THAT(read_until(ask("/now"), "hello"), StartsWith("HTTP/1.1 200"));
    EXPECT_EQ(figures.evicted_connections, 1);
}

TEST_F(HttpServerTest, WhoIsAnsweredGivesWayOnceTheAnswerIsGiven) {
    settings.limits.connections = 2;
    start();
    int const first = ask("/held");
    int const second = ask("/held");
    run_until([&] { return held_answers == 2; });
    int const waiting = ask("/now");
    run_ready();
    EXPECT_EQ(figures.connections, 3);
    released.notify_all();
    EXPECT_THAT(read_until(first, "hello"), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(read_until(second, "hello"), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(read_until(waiting, "hello"), StartsWith("HTTP/1.1 200"));
    EXPECT_EQ(figures.evicted_connections, 1);
}

TEST_F(HttpServerTest, APeerThatTakesNothingForTooLongIsLeft) {
    settings.limits.answer = 10ms;
    start();
    (void)ask("/large");
    run_until([&] { return broken == 1 && figures.open_connections == 0; });
}

}  // namespace
}  // namespace triton::net
