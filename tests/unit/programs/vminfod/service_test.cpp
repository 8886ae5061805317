// The HTTP service over real sockets, with a real cache and feed and a daemon that does what the test says.

#include "programs/vminfod/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/info/agenda.h"
#include "host/info/cache.h"
#include "host/info/feed.h"
#include "tests/unit/helpers/http_talk.h"

namespace triton::program {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::string_view web = "5c2f6d1e-0000-4000-8000-000000000001";
constexpr std::string_view db = "5c2f6d1e-0000-4000-8000-000000000002";
constexpr std::size_t open_place = 1;  // the socket that stands for TCP

class FakeDaemon : public Daemon {
public:
    void look_again(std::optional<Uuid> const& machine, Done done) override {
        looks.emplace_back(machine ? machine->text() : "all", std::move(done));
    }
    void usage(GotText got) override { asked.push_back(std::move(got)); }
    void history(std::optional<Uuid> const& machine, GotText got) override {
        history_of = machine ? machine->text() : "all";
        asked.push_back(std::move(got));
    }
    [[nodiscard]] std::string raw(std::string const& machine) const override {
        return R"({"uuid":")" + machine + R"(","raw":true})";
    }
    [[nodiscard]] DaemonFacts facts() const override { return {}; }

    std::vector<std::pair<std::string, Done>> looks;
    std::vector<GotText> asked;
    std::string history_of;
};

class ServiceTest : public testing::Test, protected tests::HttpTalk {
protected:
    ~ServiceTest() override {
        clients.clear();
        if (!service) return;
        bool has_stopped = false;
        service->stop([&] { has_stopped = true; });
        run_until([&] { return has_stopped; });
        service.reset();
        run_ready();
    }

    void start() {
        settings.version = "1.0";
        settings.now = [this] { return now; };
        auto made = Service::create(settings, {loop, cache, feed, agenda, daemon, log});
        ASSERT_TRUE(made);
        service = std::move(*made);
        ASSERT_TRUE(service->listen(listening(), Entrance::unix_socket));
        ASSERT_TRUE(service->listen(listening(open_place), Entrance::tcp));
    }
    static machine::Machine some_machine(std::string_view uuid, std::string_view alias) {
        machine::Machine machine;
        machine.uuid = *Uuid::parse(uuid);
        machine.brand = "lx";
        machine.alias = alias;
        machine.customer_metadata.push_back({"password", {std::string("tell nobody")}});
        return machine;
    }
    void put(std::string_view uuid, std::string_view alias) {
        cache.apply(uuid, info::make_document(some_machine(uuid, alias)), now);
        if (service) service->feed_has_grown();
    }
    std::string text_of(std::string_view uuid, info::View view) { return *cache.find(uuid)->text(view); }

    /// The whole answer to a question whose connection then ends.
    std::string answer(std::string const& target, std::string const& fields = "", std::size_t place = 0) {
        return read_all(ask(target, "Host: localhost\r\nConnection: close\r\n" + fields, place));
    }
    std::string open_answer(std::string const& target, std::string const& fields = "") {
        return answer(target, fields, open_place);
    }
    /// Without its header.
    static std::string body_of(std::string const& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }
    static std::string without_chunks(std::string const& answer) {
        std::string const body = body_of(answer);
        std::string text;
        for (std::size_t at = 0; at < body.size();) {
            std::size_t const end = body.find("\r\n", at);
            std::size_t const size = std::stoul(body.substr(at, end - at), nullptr, 16);
            text += body.substr(end + 2, size);
            at = end + 2 + size + 2;
        }
        return text;
    }

    std::int64_t now = 1'800'000'000'000'000;
    ServiceSettings settings;
    info::Feed feed{100, {.events = 20}};
    info::Cache cache{feed};
    info::Agenda agenda;
    FakeDaemon daemon;
    std::unique_ptr<Service> service;

private:
    static log::Log::Settings silent() {
        log::Log::Settings quiet;
        quiet.level = log::LogLevel::off;
        return quiet;
    }
    log::Log log{silent()};
};

TEST_F(ServiceTest, AnswersOneMachineAsItLiesInTheCache) {
    put(web, "web0");
    start();
    std::string const text = text_of(web, info::View::full) + "\n";
    EXPECT_THAT(text, HasSubstr("tell nobody"));
    EXPECT_EQ(answer("/vms/" + std::string(web)),
              "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
              "Cross-Origin-Resource-Policy: same-origin\r\nCache-Control: no-store\r\nContent-Length: " +
                  std::to_string(text.size()) + "\r\nConnection: close\r\n\r\n" + text);
    EXPECT_THAT(answer("/vms/5C2F6D1E-0000-4000-8000-000000000001"), EndsWith("\r\n\r\n" + text));
    EXPECT_THAT(open_answer("/vms/" + std::string(web)),
                AllOf(EndsWith("\r\n\r\n" + text_of(web, info::View::open) + "\n"), Not(HasSubstr("tell nobody"))));
}

TEST_F(ServiceTest, SaysWhatIsWrong) {
    start();
    auto const error = [this](std::string const& target) {
        std::string const all = open_answer(target);
        return all.substr(9, 3) + " " + body_of(all);
    };
    EXPECT_EQ(error("/vms/" + std::string(web)), "404 VM Not Found: 5c2f6d1e-0000-4000-8000-000000000001\n");
    EXPECT_EQ(error("/vms/web"), "400 \"web\" is not a UUID\n");
    EXPECT_EQ(error("/vms/../../etc/passwd"), "400 \"../../etc/passwd\" is not a UUID\n");
    EXPECT_EQ(error("/vms/"), "400 the path is malformed\n");
    EXPECT_EQ(error("/vm"), "404 Unsupported URL Path\n");
    EXPECT_EQ(error("/vms?alais=x"), "400 Invalid lookup key: \"alais\"; did you mean \"alias\"?\n");
    EXPECT_EQ(error("/vms?alias=%zz"), "400 parameter \"alias\" has a bad escape\n");
    EXPECT_EQ(error("/events?sinse=1"), "400 unknown parameter \"sinse\"\n");
    EXPECT_EQ(error("/events?since=x"), "400 parameter \"since\" is a number\n");
    EXPECT_EQ(error("/events?vm=web"), "400 \"web\" is not a UUID\n");
    EXPECT_EQ(error("/events?type=boom"), "400 parameter \"type\" is create, modify or delete\n");
    EXPECT_EQ(error("/events?field=state,sate"), "400 parameter \"field\": \"sate\" is not a property\n");
    EXPECT_EQ(error("/status?full=maybe"), "400 parameter \"full\" is true or false\n");
    EXPECT_EQ(error("/history?vm=web"), "400 \"web\" is not a UUID\n");
    EXPECT_EQ(error("/vms/" + std::string(web) + "?fresh=true"), "403 fresh needs the Unix socket\n");
    EXPECT_EQ(error("/vms?fresh"), "403 fresh needs the Unix socket\n");
    EXPECT_EQ(error("/data"), "403 /data needs the Unix socket\n");
}

TEST_F(ServiceTest, RefusesWhatOnlyABrowserOfSomebodyElseSends) {
    start();
    for (std::string const host : {"evil.example", "evil.example:9090", "127.0.0.1.evil.example"}) {
        EXPECT_THAT(read_until(ask("/ping", "Host: " + host + "\r\n", open_place), "\n"),
                    AllOf(StartsWith("HTTP/1.1 403 "), EndsWith("\r\n\r\nHost is not localhost\n")));
    }
    EXPECT_THAT(read_until(ask("http://evil.example/ping", "Host: localhost\r\n", open_place), "\n"),
                EndsWith("Host is not localhost\n"));
    EXPECT_THAT(open_answer("/ping", "Origin: http://evil.example\r\n"), EndsWith("Origin is not localhost\n"));
    EXPECT_THAT(open_answer("/ping", "Origin: null\r\n"), EndsWith("Origin is not localhost\n"));
    EXPECT_THAT(open_answer("/ping", "Origin: http://localhost:9090\r\n"), EndsWith("{\"ping\":\"pong\"}\n"));
    EXPECT_THAT(read_until(ask("/ping", "Host: any\r\n"), "\n"), EndsWith("{\"ping\":\"pong\"}\n"));
}

TEST_F(ServiceTest, AnswersByTheAddressThatItServes) {
    settings.served_host = "127.0.0.2";
    start();
    auto const ping = [this](std::string const& fields) { return read_until(ask("/ping", fields, open_place), "\n"); };
    EXPECT_THAT(ping("Host: 127.0.0.2:9090\r\nOrigin: http://127.0.0.2:9090\r\n"), EndsWith("{\"ping\":\"pong\"}\n"));
    EXPECT_THAT(ping("Host: 127.0.0.1:9090\r\n"), EndsWith("{\"ping\":\"pong\"}\n"));
    EXPECT_THAT(ping("Host: 127.0.0.3:9090\r\n"), EndsWith("Host is not localhost\n"));
    EXPECT_THAT(ping("Host: 127.0.0.2:9090\r\nOrigin: http://127.0.0.3:9090\r\n"),
                EndsWith("Origin is not localhost\n"));
}

TEST_F(ServiceTest, AnswersAllMachinesStepByStep) {
    start();
    EXPECT_EQ(without_chunks(answer("/vms")), "[]\n");
    std::string expected = "[";
    for (int i = 100; i < 500; ++i) {
        std::string const uuid = "5c2f6d1e-0000-4000-8000-000000000" + std::to_string(i);
        put(uuid, "vm" + std::to_string(i));
        expected += (i > 100 ? ",\n" : "") + text_of(uuid, info::View::open);
    }
    EXPECT_EQ(without_chunks(open_answer("/vms")), expected + "]\n");
    EXPECT_EQ(without_chunks(open_answer("/vms?alias=vm123&fields=uuid,alias")),
              "[{\"uuid\":\"5c2f6d1e-0000-4000-8000-000000000123\",\"alias\":\"vm123\"}]\n");
    EXPECT_EQ(without_chunks(open_answer("/vms?alias=nobody")), "[]\n");
}

TEST_F(ServiceTest, ShowsBrokenMachinesBesideTheOthers) {
    cache.apply("broken", info::make_broken("broken", fail("it is not JSON").error()), now);
    put(web, "web0");
    start();
    EXPECT_THAT(without_chunks(open_answer("/vms")),
                AllOf(HasSubstr("\"state\":\"unreadable\""), HasSubstr(",\n"), HasSubstr("\"web0\"")));
}

TEST_F(ServiceTest, ConditionsOnSecretsNeedTheUnixSocket) {
    put(web, "web0");
    start();
    for (std::string const query : {"customer_metadata.password=tell%20nobody", "fields=uuid,customer_metadata"}) {
        EXPECT_THAT(open_answer("/vms?" + query),
                    AllOf(StartsWith("HTTP/1.1 403 "), EndsWith("\r\n\r\ncustomer_metadata needs the Unix socket\n")));
        EXPECT_THAT(without_chunks(answer("/vms?" + query)), HasSubstr(web));
    }
}

TEST_F(ServiceTest, OpenSecretsAreForAll) {
    settings.has_open_secrets = true;
    put(web, "web0");
    start();
    EXPECT_THAT(open_answer("/vms/" + std::string(web)), HasSubstr("tell nobody"));
    EXPECT_THAT(open_answer("/vms?fresh"), EndsWith("fresh needs the Unix socket\n"));
}

TEST_F(ServiceTest, AFreshAnswerComesAfterTheLook) {
    put(web, "web0");
    start();
    int const one = ask("/vms/" + std::string(web) + "?fresh=true");
    int const all = ask("/vms?fresh=true&fields=alias");
    run_until([&] { return daemon.looks.size() == 2; });
    EXPECT_EQ(daemon.looks[0].first, web);
    EXPECT_EQ(daemon.looks[1].first, "all");
    put(web, "web1");
    daemon.looks[0].second({});
    EXPECT_THAT(read_until(one, "\n"), HasSubstr("\"web1\""));
    daemon.looks[1].second({});
    EXPECT_THAT(read_until(all, "0\r\n\r\n"), HasSubstr("[{\"alias\":\"web1\"}]\n"));
}

TEST_F(ServiceTest, AFreshLookMayFailOrTakeTooLong) {
    settings.fresh_limit = milliseconds(20);
    start();
    int const failing = ask("/vms?fresh=true");
    run_until([&] { return daemon.looks.size() == 1; });
    daemon.looks[0].second(fail(ErrorKind::unavailable, "there is no bus"));
    EXPECT_THAT(read_until(failing, "\n"), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("\r\nRetry-After: 1\r\n"),
                                                 EndsWith("\r\n\r\nthere is no bus\n")));
    EXPECT_THAT(answer("/vms?fresh=true"),
                AllOf(StartsWith("HTTP/1.1 504 "), EndsWith("\r\n\r\na fresh look takes too long\n")));
    daemon.looks[1].second({});  // nobody waits any more
}

TEST_F(ServiceTest, ListenersHearWhatChanges) {
    put(web, "web0");
    start();
    int const full = ask("/events");
    std::string const first = read_until(full, "\n\r\n");
    EXPECT_THAT(first, AllOf(HasSubstr("Content-Type: application/x-ndjson\r\n"), HasSubstr("\"type\":\"ack\""),
                             HasSubstr("\"seq\":101")));
    int const open = ask("/events?snapshot=true", "Host: localhost\r\n", open_place);
    EXPECT_THAT(read_until(open, "]}\n\r\n"),
                AllOf(HasSubstr("\"type\":\"ready\""), HasSubstr("\"web0\""), Not(HasSubstr("tell nobody"))));
    put(web, "web1");
    EXPECT_THAT(read_until(full, "\n\r\n"), AllOf(HasSubstr("\"seq\":102"), HasSubstr("tell nobody")));
    EXPECT_THAT(read_until(open, "\n\r\n"),
                AllOf(HasSubstr("\"path\":\"alias\""), HasSubstr("\"to\":\"web1\""), Not(HasSubstr("tell nobody"))));
    cache.apply(web, nullptr, now);
    service->feed_has_grown();
    EXPECT_THAT(read_until(full, "\n\r\n"), HasSubstr("\"type\":\"delete\""));
}

TEST_F(ServiceTest, BrowsersGetServerSentEventsAndComeBack) {
    put(web, "web0");
    put(web, "web1");
    put(web, "web2");
    start();
    int const client = ask("/events?since=1", "Host: localhost\r\nAccept: text/event-stream\r\nLast-Event-ID: 102\r\n");
    std::string const read = read_until(client, "\n\n\r\n");
    EXPECT_THAT(read, AllOf(HasSubstr("Content-Type: text/event-stream\r\n"), HasSubstr("id: 103\nevent: modify\n"),
                            Not(HasSubstr("id: 101\n")), Not(HasSubstr("resync"))));
}

TEST_F(ServiceTest, ListenersChooseWhatTheyHear) {
    start();
    int const client = ask("/events?vm=" + std::string(db) + "&type=modify,create&field=alias");
    (void)read_until(client, "\n\r\n");
    put(web, "web0");
    put(db, "db0");
    EXPECT_THAT(read_until(client, "\n\r\n"), AllOf(HasSubstr(db), HasSubstr("create"), Not(HasSubstr(web))));
}

TEST_F(ServiceTest, SilentListenersGetHeartbeats) {
    settings.heartbeat = milliseconds(20);
    start();
    int const lines = ask("/events");
    int const events = ask("/events", "Host: localhost\r\nAccept: text/event-stream\r\n");
    std::string read;
    run_until([&] { return !take(lines, read) || read.find("\"type\":\"heartbeat\"") != read.npos; });
    read.clear();
    run_until([&] { return !take(events, read) || read.find("\n: heartbeat\n") != read.npos; });
}

TEST_F(ServiceTest, AListenerThatDoesNotReadIsToldWhereToBeginAgain) {
    start();
    int const slow = ask("/events");
    (void)read_until(slow, "\n\r\n");
    std::string const alias(20'000, 'a');
    for (int i = 0; i < 100; ++i) {  // more than the feed and the kernel keep
        put(web, alias + std::to_string(i));
        run_ready();
    }
    EXPECT_EQ(feed.first(), 181);
    std::string read;
    run_until([&] { return !take(slow, read) || read.find("\"type\":\"resync\"") != read.npos; });
    put(web, "last");
    run_until([&] { return !take(slow, read) || read.find("\"to\":\"last\"") != read.npos; });
    EXPECT_THAT(answer("/status"), HasSubstr("\"resyncs\":1"));
}

TEST_F(ServiceTest, WhoeverTakesNothingOfASnapshotLeavesItsPlaceToOthers) {
    settings.snapshot_limit = milliseconds(50);
    std::string const alias(100'000, 'a');
    for (int i = 100; i < 120; ++i)  // more than the kernel keeps for anybody
        put("5c2f6d1e-0000-4000-8000-000000000" + std::to_string(i), alias);
    start();
    for (int i = 0; i < 40; ++i)
        (void)ask("/events?snapshot=true", "Host: localhost\r\n", open_place);
    run_ready();
    int const reader = ask("/events?snapshot=true", "Host: localhost\r\n", open_place);
    EXPECT_THAT(read_until(reader, "]}\n\r\n"), HasSubstr("\"type\":\"ready\""));
}

TEST_F(ServiceTest, WhoeverIsSlowInASnapshotGivesWayToThoseWhoWait) {
    settings.snapshot_turn = milliseconds(1);
    std::string const alias(100'000, 'a');
    for (int i = 100; i < 200; ++i)
        put("5c2f6d1e-0000-4000-8000-000000000" + std::to_string(i), alias);
    start();
    std::vector<int> askers;  // one more than there are places
    for (int i = 0; i < 33; ++i) {
        askers.push_back(ask("/events?snapshot=true", "Host: localhost\r\n", open_place));
        run_ready();
    }
    std::string slow, waiting;
    run_until([&] { return !take(askers.front(), slow) || !take(askers.back(), waiting) || !waiting.empty(); });
    EXPECT_LT(slow.size(), 5'000'000U);  // half of what all are
    EXPECT_THAT(waiting + read_until(askers.back(), "]}\n\r\n"), HasSubstr("\"type\":\"ready\""));
}

TEST_F(ServiceTest, StatusShowsListenersWithHarmlessNames) {
    start();
    int const client = ask("/events", "Host: localhost\r\nUser-Agent: me\t\xff[b]\r\n", open_place);
    (void)read_until(client, "\n\r\n");
    EXPECT_THAT(answer("/status?full"),
                AllOf(HasSubstr("\"userAgent\":\"me??[b]\",\"entrance\":\"tcp\""),
                      HasSubstr("\"tcp\":{\"connections\":1,"), HasSubstr("\"refreshLog\":[]")));
    EXPECT_THAT(answer("/metrics"), AllOf(HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
                                          HasSubstr("\nvminfod_open_streams{entrance=\"tcp\"} 1\n"),
                                          HasSubstr("\nvminfod_requests_total{endpoint=\"status\",code=\"200\"} 1\n")));
    EXPECT_THAT(answer("/metrics", "Accept: application/openmetrics-text\r\n"), EndsWith("# EOF\n"));
}

TEST_F(ServiceTest, StatusNamesListenersToThoseOfTheUnixSocket) {
    start();
    int const client = ask("/events", "Host: localhost\r\nUser-Agent: me\r\n", open_place);
    (void)read_until(client, "\n\r\n");
    for (char const* const target : {"/status", "/status?full"}) {
        EXPECT_THAT(answer(target), HasSubstr("\"userAgent\":\"me\""));
        EXPECT_THAT(open_answer(target), AllOf(HasSubstr("\"listeners\":{\"unix\":0,\"tcp\":1}"),
                                               Not(HasSubstr("eventsListeners")), Not(HasSubstr("userAgent"))));
    }
}

TEST_F(ServiceTest, StatusIsNotMadeForEachRequest) {
    settings.status_age = std::chrono::hours(1);
    start();
    std::string const before = body_of(open_answer("/status"));
    std::string const metrics = body_of(open_answer("/metrics"));
    now += 1'000'000;
    put(web, "web");
    EXPECT_EQ(body_of(open_answer("/status")), before);
    EXPECT_EQ(body_of(open_answer("/metrics")), metrics);
    EXPECT_THAT(open_answer("/status?full"), HasSubstr("\"numVms\":1,"));
}

TEST_F(ServiceTest, StatusIsMadeAnewLater) {
    settings.status_age = Duration(0);
    start();
    EXPECT_THAT(open_answer("/status"), HasSubstr("\"numVms\":0,"));
    put(web, "web");
    EXPECT_THAT(open_answer("/status"), HasSubstr("\"numVms\":1,"));
}

TEST_F(ServiceTest, HistoryTellsTheOpenEntranceNoDetails) {
    start();
    auto const lines = std::make_shared<std::string const>(
        R"({"time":"t","uuid":"u","command":"update","outcome":"ok","detail":{"password":"tell nobody"}})"
        "\nnot json\n"
        R"({"time":"t","uuid":"u","command":"start","outcome":"cannot: tell nobody"})"
        "\n");
    int const full = ask("/history?vm=" + std::string(web));
    run_until([&] { return daemon.asked.size() == 1; });
    EXPECT_EQ(daemon.history_of, web);
    daemon.asked[0](lines);
    EXPECT_THAT(read_until(full, *lines), HasSubstr("application/x-ndjson"));
    int const open = ask("/history", "Host: localhost\r\n", open_place);
    run_until([&] { return daemon.asked.size() == 2; });
    EXPECT_EQ(daemon.history_of, "all");
    daemon.asked[1](lines);
    EXPECT_EQ(without_chunks(read_until(open, "0\r\n\r\n")),
              "{\"time\":\"t\",\"uuid\":\"u\",\"command\":\"update\",\"outcome\":\"ok\"}\n"
              "{\"time\":\"t\",\"uuid\":\"u\",\"command\":\"start\",\"outcome\":\"failed\"}\n");
}

TEST_F(ServiceTest, SixteenHistoriesGoOutAtOnceByTheOpenEntrance) {
    start();
    constexpr std::size_t most = 16;
    int const full = ask("/history");
    for (std::size_t i = 0; i < most; ++i)
        (void)ask("/history", "Host: localhost\r\n", open_place);
    run_until([&] { return daemon.asked.size() == most + 1; });
    EXPECT_THAT(open_answer("/history"), AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("too many read the history\n")));
    for (auto const& got : daemon.asked)
        got(std::make_shared<std::string const>("{}\n"));
    EXPECT_THAT(read_until(full, "{}\n"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(ServiceTest, AllThatAskMeanwhileGetOneUsage) {
    start();
    int const open = ask("/usage", "Host: localhost\r\n", open_place);
    run_until([&] { return daemon.asked.size() == 1; });
    int const full = ask("/usage");
    run_ready();
    ASSERT_EQ(daemon.asked.size(), 1U);
    daemon.asked[0](std::make_shared<std::string const>("[]\n"));
    for (int const client : {open, full})
        EXPECT_THAT(read_until(client, "[]\n"), StartsWith("HTTP/1.1 200 "));
    int const later = ask("/usage");
    run_until([&] { return daemon.asked.size() == 2; });
    daemon.asked[1](fail(ErrorKind::unavailable, "measure the machines"));
    EXPECT_THAT(read_until(later, "\n"), StartsWith("HTTP/1.1 503 "));
}

TEST_F(ServiceTest, PassesUsageAndRawDataOn) {
    put(web, "web0");
    start();
    int const client = ask("/usage", "Host: localhost\r\n", open_place);
    run_until([&] { return daemon.asked.size() == 1; });
    daemon.asked[0](std::make_shared<std::string const>("[]\n"));
    EXPECT_THAT(read_until(client, "[]\n"), HasSubstr("Content-Length: 3\r\n"));
    EXPECT_EQ(without_chunks(answer("/data")), "[{\"uuid\":\"5c2f6d1e-0000-4000-8000-000000000001\",\"raw\":true}]\n");
}

TEST_F(ServiceTest, PageComesWithItsPolicy) {
    start();
    EXPECT_THAT(open_answer("/"),
                AllOf(HasSubstr("Content-Type: text/html; charset=utf-8\r\n"),
                      HasSubstr("\r\nContent-Security-Policy: default-src 'none'; script-src 'sha256-"),
                      HasSubstr("\r\nReferrer-Policy: no-referrer\r\n"), EndsWith("</html>\n")));
}

}  // namespace
}  // namespace triton::program
