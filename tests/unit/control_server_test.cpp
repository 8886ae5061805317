#include "launcher/control/control_server.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <unistd.h>

#include "launcher/control/control_calls.h"
#include "tests/unit/control_subject.h"
#include "tests/unit/varlink_interface.h"

namespace triton::launcher {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ControlServerTest : public ControlSubject {
protected:
    /// The reply's parameters are what the description declares, its errors too.
    static void expect_declared(std::string_view method_name, std::string const& text) {
        auto const reply = parse_varlink_reply(text, text.size());
        ASSERT_TRUE(reply) << text;
        bool const is_error = !reply->error.empty();
        std::string const full = is_error ? reply->error : std::string(method_name);
        std::size_t const dot = full.rfind('.');
        auto const interface = test::parse_interface(interface_description(full.substr(0, dot)));
        std::string const name = full.substr(dot + 1);
        ASSERT_TRUE(is_error ? interface.errors.contains(name) : interface.methods.contains(name)) << full;
        auto const& type = is_error ? interface.errors.at(name) : interface.methods.at(name).out;
        EXPECT_EQ(test::mismatch(interface, type, reply->parameters), "") << text;
    }
    std::string ask_declared(std::string_view name, std::string_view parameters = "{}") {
        std::string const text = ask(name, parameters);
        expect_declared(name, text);
        return text;
    }
};

std::string error(std::string_view name, std::string_view parameters) {
    return R"({"error":")" + std::string(name) + R"(","parameters":)" + std::string(parameters) + "}";
}

std::string service(std::string_view name) { return std::string(service_interface).append(".").append(name); }

/// A status with every optional value there is.
void fill(FakeBackend& backend) {
    backend.add("web", 2);
    FakeBackend::Program& job = backend.add("job", 1);
    job.status.kind = ProgramKind::scheduled;
    job.status.next_run_in = std::chrono::minutes(5);
    job.processes[0].state = ProcessState::backoff;
    job.processes[0].pid.reset();
    job.processes[0].uptime.reset();
    job.processes[0].last_exit = LastExit{.code = 0, .signal = 9, .was_oom_killed = true};
    job.processes[0].restart_in = std::chrono::milliseconds(1005);
    job.processes[0].status_text = "bad \xff and \x01";
    backend.at(0, 2).last_exit = LastExit{.code = 3};
}

// Answers.

TEST_F(ControlServerTest, DescribesItself) {
    start();
    EXPECT_EQ(ask_declared(service("GetInfo")),
              R"({"parameters":{"vendor":"Triton","product":"triton-launch","version":"0.1.0+1a2b3c4","url":"",)"
              R"("interfaces":["org.varlink.service","org.tritonlaunch.Launcher"]}})");
    for (std::string_view const name : {launcher_interface, service_interface}) {
        std::string const text =
            ask_declared(service("GetInterfaceDescription"), R"({"interface":")" + std::string(name) + "\"}");
        auto const reply = parse_varlink_reply(text, text.size());
        ASSERT_TRUE(reply);
        auto const* const description = find_member(reply->parameters, "description");
        ASSERT_NE(description, nullptr);
        EXPECT_EQ(*description->get<std::string>(), interface_description(name));
    }
}

TEST_F(ControlServerTest, ListsAllOrSome) {
    start();
    fill(backend);
    std::string const web1 =
        R"({"number":1,"state":"up","pid":1001,"uptime_seconds":61.500,"starts":1,"restarts":0,"ready":true,)"
        R"("memory_bytes":1048576,"cpu_seconds":1.500})";
    std::string const web2 =
        R"({"number":2,"state":"up","pid":1002,"uptime_seconds":61.500,"starts":1,"restarts":0,"ready":true,)"
        R"("memory_bytes":1048576,"cpu_seconds":1.500,"last_exit":{"code":3,"oom_killed":false}})";
    std::string const job =
        R"({"number":1,"state":"backoff","starts":1,"restarts":0,"ready":false,"memory_bytes":1048576,)"
        R"("cpu_seconds":1.500,"last_exit":{"signal":"SIGKILL","oom_killed":true},"restart_in_seconds":1.005,)"
        "\"status\":\"bad \xef\xbf\xbd and \\u0001\"}";
    std::string const web_head = R"({"name":"web","kind":"service","wanted":2,"ready":true,"processes":[)";
    std::string const job_head =
        R"({"name":"job","kind":"scheduled","wanted":1,"ready":true,"next_run_in_seconds":300.000,"processes":[)";
    auto const reply_of = [](std::string const& programs) {
        return R"({"parameters":{"programs":[)" + programs + "]}}";
    };
    EXPECT_EQ(ask_declared(method("List")), reply_of(web_head + web1 + "," + web2 + "]}," + job_head + job + "]}"));
    EXPECT_EQ(ask_declared(method("List"), R"({"program":"job"})"), reply_of(job_head + job + "]}"));
    EXPECT_EQ(ask_declared(method("List"), R"({"program":"web","process":2})"), reply_of(web_head + web2 + "]}"));
    EXPECT_EQ(ask_declared(method("List"), R"({"program":"db"})"),
              error(method("NoSuchProgram"), R"({"program":"db"})"));
    EXPECT_EQ(ask_declared(method("List"), R"({"program":"web","process":3})"),
              error(method("NoSuchProcess"), R"({"program":"web","process":3})"));
}

TEST_F(ControlServerTest, TellsOfItselfAndOfOneProgram) {
    start();
    fill(backend);
    EXPECT_EQ(ask_declared(method("GetStatus")),
              R"({"parameters":{"launcher":{"version":"0.1.0+1a2b3c4","pid":1,"uptime_seconds":90.000,)"
              R"("phase":"running","configuration":"/etc/config.json","has_configuration":true,"ready":false,)"
              R"("rejection":[],"programs":["web","job"]}}})");
    EXPECT_THAT(ask_declared(method("Describe"), R"({"program":"web"})"),
                HasSubstr("\"command\":[\"/bin/web\",\"--level\",\"\xef\xbf\xbd\"]"));
}

TEST_F(ControlServerTest, AListOfManyComesInParts) {
    start();
    backend.add("a", 3000);
    backend.add("b", 0);
    backend.add("c", 1);
    EXPECT_EQ(ask(method("List")), error(service("ExpectedMore"), "{}"));
    auto const client = connect();
    client->call(method("List"), "{}", true);
    std::size_t processes = 0;
    std::size_t parts = 0;
    for (bool goes_on = true; goes_on && !HasFailure(); ++parts) {
        std::string const text = reply(*client);
        expect_declared(method("List"), text);
        goes_on = text.ends_with(R"(,"continues":true})");
        for (std::size_t at = 0; (at = text.find("\"number\":", at)) != std::string::npos; ++at)
            ++processes;
    }
    EXPECT_EQ(processes, 3001U);
    EXPECT_GT(parts, 3001 / ControlLimits{}.work);
}

// Commands.

TEST_F(ControlServerTest, CommandsAreCarriedOutAndToldWithWhoGaveThem) {
    start();
    backend.add("", 2);
    backend.add("web", 2);
    for (auto const& [name, parameters] :
         std::vector<std::pair<std::string, std::string>>{{"Start", R"({"program":"web"})"},
                                                          {"Stop", R"({"program":"web","process":2})"},
                                                          {"Restart", R"({"program":"","process":1})"},
                                                          {"Signal", R"({"program":"","signal":"hup"})"},
                                                          {"Reload", "{}"}}) {
        EXPECT_EQ(ask_declared(method(name), parameters), R"({"parameters":{}})") << name;
    }
    EXPECT_THAT(backend.done, ElementsAre("start 1", "stop 1:2", "restart 0:1", "signal 0 1", "reload"));
    EXPECT_THAT(backend.given, ElementsAre("start web", "stop web:2", "restart -:1", "signal SIGHUP -", "reload"));
    for (ControlPeer const& peer : backend.peers) {
        EXPECT_EQ(peer.uid, ::geteuid());
        EXPECT_EQ(peer.pid, ::getpid());
    }
}

TEST_F(ControlServerTest, RefusalsAreErrorsWithTheirDetails) {
    start();
    backend.add("web", 1);
    backend.refusal = ControlError{ControlError::Kind::refused, "the launcher is stopping", {}};
    EXPECT_EQ(ask_declared(method("Stop"), R"({"program":"web"})"),
              error(method("Refused"), R"({"reason":"the launcher is stopping","details":[]})"));
    backend.refusal = ControlError{ControlError::Kind::failed, "rejected", {"line 1: bad", "line 2: worse"}};
    EXPECT_EQ(ask_declared(method("Reload")),
              error(method("Failed"), R"({"reason":"rejected","details":["line 1: bad","line 2: worse"]})"));
    backend.refusal->details.assign(100'000, "problem");
    EXPECT_LT(ask_declared(method("Reload")).size(), ControlLimits{}.output_bytes);
}

TEST_F(ControlServerTest, ProtocolErrorsAreThoseOfTheStandard) {
    start();
    backend.add("web", 1);
    EXPECT_EQ(ask_declared("a.b.C"), error(service("InterfaceNotFound"), R"({"interface":"a.b"})"));
    EXPECT_EQ(ask_declared("C"), error(service("InterfaceNotFound"), R"({"interface":""})"));
    EXPECT_EQ(ask_declared(method("Explode")),
              error(service("MethodNotFound"), R"({"method":"org.tritonlaunch.Launcher.Explode"})"));
    EXPECT_EQ(ask_declared(method("Stop"), R"({"program":"web","force":true})"),
              error(service("InvalidParameter"), R"({"parameter":"force"})"));
    EXPECT_EQ(ask_declared(method("Subscribe")), error(service("ExpectedMore"), "{}"));
    EXPECT_EQ(ask_declared(method("Logs"), R"({"program":"web","follow":true})"), error(service("ExpectedMore"), "{}"));
    auto const client = connect();
    client->send(std::string(R"({"method":"org.varlink.service.GetInfo","upgrade":true})") + '\0');
    EXPECT_EQ(reply(*client), error(service("MethodNotImplemented"), R"({"method":"org.varlink.service.GetInfo"})"));
    EXPECT_TRUE(backend.done.empty());
}

TEST_F(ControlServerTest, OnewayCallsAreDoneWithoutAnAnswer) {
    start();
    backend.add("web", 1);
    auto const client = connect();
    for (std::string_view const call :
         {R"("Stop","parameters":{"program":"web","wait":true})", R"("List")", R"("Nothing")",
          R"("Subscribe","more":true)", R"("Logs","parameters":{"program":"web"})",
          R"("Wait","parameters":{"program":"web","condition":"done"})"}) {
        client->send("{\"oneway\":true,\"method\":\"org.tritonlaunch.Launcher." + std::string(call.substr(1)) + "}" +
                     '\0');
    }
    client->call(service("GetInfo"));
    EXPECT_THAT(reply(*client), HasSubstr("vendor"));
    EXPECT_THAT(backend.done, ElementsAre("stop 0"));
}

TEST_F(ControlServerTest, PipelinedCallsAreAnsweredInTheirOrder) {
    start();
    backend.add("web", 3);
    auto const client = connect();
    std::string calls;
    constexpr int count = 200;
    for (int i = 0; i < count; ++i)
        calls +=
            varlink_call(method("List"), R"({"program":"web","process":)" + std::to_string(i % 3 + 1) + "}", false);
    client->send(calls);
    for (int i = 0; i < count && !HasFailure(); ++i)
        EXPECT_THAT(reply(*client), HasSubstr("\"number\":" + std::to_string(i % 3 + 1) + ","));
}

TEST_F(ControlServerTest, ACallMayComeByteByByte) {
    start();
    auto const client = connect();
    for (char const byte : varlink_call(service("GetInfo"), "{}", false)) {
        client->send({&byte, 1});
        until_quiet();
    }
    EXPECT_THAT(reply(*client), HasSubstr("vendor"));
}

TEST_F(ControlServerTest, WhoStopsSendingStillGetsAnswers) {
    start();
    backend.add("web", 1);
    auto const client = connect();
    client->call(service("GetInfo"));
    client->call(method("List"));
    client->shut_down_writing();
    EXPECT_THAT(reply(*client), HasSubstr("vendor"));
    EXPECT_THAT(reply(*client), HasSubstr("web"));
    EXPECT_EQ(reply(*client), "(end)");
}

// Waiting.

TEST_F(ControlServerTest, AStopThatWaitsIsAnsweredWhenAllHaveEnded) {
    start();
    backend.add("web", 2);
    auto const client = connect();
    client->call(method("Stop"), R"({"program":"web","wait":true})");
    backend.on_command = [this] { backend.at(0, 1).state = backend.at(0, 2).state = ProcessState::stopping; };
    until([this] { return !backend.done.empty(); });
    for (std::uint32_t const number : {2U, 1U}) {
        until_quiet();
        EXPECT_TRUE(client->replies.empty());
        backend.at(0, number).state = ProcessState::held;
        server->state_changed();
        server->end_round();
    }
    EXPECT_EQ(reply(*client), R"({"parameters":{}})");
}

TEST_F(ControlServerTest, ARestartWaitsForTheNewProcess) {
    start();
    backend.add("web", 1);
    auto const client = connect();
    client->call(method("Restart"), R"({"program":"web","process":1,"wait":true})");
    until([this] { return !backend.done.empty(); });
    until_quiet();  // the old one is up still
    EXPECT_TRUE(client->replies.empty());
    backend.at(0, 1).starts = 2;
    server->state_changed();
    server->end_round();
    EXPECT_EQ(reply(*client), R"({"parameters":{}})");
}

TEST_F(ControlServerTest, AWaitThatCannotBeMetSaysWhy) {
    start();
    backend.add("web", 2);
    backend.at(0, 2).state = ProcessState::starting;
    auto const client = connect();
    client->call(method("Wait"), R"({"program":"web","condition":"ready"})");
    until_quiet();
    EXPECT_TRUE(client->replies.empty());
    backend.at(0, 2).state = ProcessState::failed;
    server->state_changed();
    server->end_round();
    std::string const text = reply(*client);
    expect_declared(method("Wait"), text);
    EXPECT_EQ(text, error(method("NotReached"), R"({"program":"web","process":2,"state":"failed"})"));
}

TEST_F(ControlServerTest, AWaitEndsWithItsProgram) {
    start();
    backend.add("web", 1);
    auto const client = connect();
    client->call(method("Wait"), R"({"program":"web","condition":"down"})");
    until_quiet();
    backend.programs.clear();
    server->state_changed();
    server->end_round();
    EXPECT_EQ(reply(*client), error(method("NoSuchProgram"), R"({"program":"web"})"));
}

TEST_F(ControlServerTest, ReadinessConcernsWhatIsWantedOnly) {
    start();
    backend.add("web", 3).status.wanted = 1;
    backend.at(0, 3).state = ProcessState::stopping;
    EXPECT_EQ(ask(method("Wait"), R"({"program":"web","condition":"ready"})"), R"({"parameters":{}})");
}

/// Each change costs each waiter one look, not one a process.
TEST_F(ControlServerTest, AWaitForManyLooksAtEachOnce) {
    start();
    backend.add("web", 1000);
    for (std::uint32_t number = 1; number <= 1000; ++number)
        backend.at(0, number).state = ProcessState::starting;
    auto const client = connect();
    client->call(method("Wait"), R"({"program":"web","condition":"ready"})");
    until_quiet();
    backend.processes_asked = 0;
    for (std::uint32_t number = 1; number <= 1000; ++number) {
        backend.at(0, number).state = ProcessState::up;
        server->state_changed();
        server->end_round();
        until_quiet();
    }
    EXPECT_EQ(reply(*client), R"({"parameters":{}})");
    EXPECT_LE(backend.processes_asked, 2002U);
}

// Events and output.

TEST_F(ControlServerTest, SubscribersGetEventsAsTheyAre) {
    start();
    EXPECT_FALSE(server->has_subscribers());
    auto const client = connect();
    client->call(method("Subscribe"), "{}", true);
    EXPECT_EQ(reply(*client), R"({"parameters":{},"continues":true})");
    EXPECT_TRUE(server->has_subscribers());
    server->publish(R"({"event":"process-started","process":1})");
    server->publish(R"({"event":"process-exited"})");
    server->end_round();
    std::string const text = reply(*client);
    expect_declared(method("Subscribe"), text);
    EXPECT_EQ(text, R"({"parameters":{"event":{"event":"process-started","process":1}},"continues":true})");
    EXPECT_THAT(reply(*client), HasSubstr("process-exited"));
    client->close();
    until([this] { return !server->has_subscribers(); });
}

TEST_F(ControlServerTest, ASubscriberThatFallsBehindIsToldWhatItHasLost) {
    start({.output_bytes = 8192});
    auto const client = connect();
    client->call(method("Subscribe"), "{}", true);
    (void)reply(*client);
    client->read(false);
    std::string const record = R"({"event":")" + std::string(1000, 'x') + "\"}";
    constexpr int count = 2000;
    for (int i = 0; i < count; ++i) {
        server->publish(record);
        server->end_round();
    }
    client->read();
    std::size_t events = 0;
    std::size_t lost = 0;
    while (events + lost < count && !HasFailure()) {
        std::string const text = reply(*client);
        expect_declared(method("Subscribe"), text);
        auto const parsed = parse_varlink_reply(text, text.size());
        ASSERT_TRUE(parsed && parsed->continues) << text;
        if (auto const* const number = find_member(parsed->parameters, "lost")) {
            lost += static_cast<std::size_t>(*number->get<std::int64_t>());
        } else {
            ++events;
        }
    }
    EXPECT_GT(lost, 0U);
    EXPECT_EQ(events + lost, static_cast<std::size_t>(count));
    server->publish(R"({"event":"after"})");
    server->end_round();
    EXPECT_THAT(reply(*client), HasSubstr("after"));
}

TEST_F(ControlServerTest, LogsAreTheNewestLinesOldestFirst) {
    start();
    FakeBackend::Program& web = backend.add("web", 2);
    for (int i = 0; i < 20; ++i)
        web.lines.push_back("line " + std::to_string(i));
    web.lines.back() = "raw \xfe\x1b[0m";
    EXPECT_EQ(ask_declared(method("Logs"), R"({"program":"web","lines":2})"),
              R"({"parameters":{"lines":[{"process":1,"stream":"stdout","text":"line 18"},)"
              "{\"process\":1,\"stream\":\"stdout\",\"text\":\"raw \xef\xbf\xbd\\u001b[0m\"}]}}");
    EXPECT_EQ(ask_declared(method("Logs"), R"({"program":"web","lines":0})"), R"({"parameters":{"lines":[]}})");
    backend.programs[0].is_captured = false;
    EXPECT_EQ(ask_declared(method("Logs"), R"({"program":"web"})"),
              error(method("Refused"), R"({"reason":"its output is not captured","details":[]})"));
}

TEST_F(ControlServerTest, LinesThatDoNotFitAreCounted) {
    start();
    FakeBackend::Program& web = backend.add("web", 1);
    for (int i = 0; i < 300; ++i)
        web.lines.emplace_back(1000, '\xff');  // three bytes each in the answer
    std::string const text = ask_declared(method("Logs"), R"({"program":"web","lines":200})");
    EXPECT_LE(text.size(), ControlLimits{}.output_bytes);
    std::size_t shown = 0;
    for (std::size_t at = 0; (at = text.find("\"text\"", at)) != std::string::npos; ++at)
        ++shown;
    EXPECT_GT(shown, 10U);
    EXPECT_THAT(text, HasSubstr("\"lost\":" + std::to_string(200 - shown)));
}

TEST_F(ControlServerTest, FollowersGetTheLinesOfTheirProcess) {
    start();
    backend.add("web", 2).lines = {"old"};
    auto const client = connect();
    client->call(method("Logs"), R"({"program":"web","process":2,"follow":true})", true);
    EXPECT_THAT(reply(*client), HasSubstr(R"("text":"old")"));
    EXPECT_TRUE(server->has_followers());
    server->publish_output("db", {.process = 2, .text = "not this"});
    server->publish_output("web", {.process = 1, .text = "nor this"});
    server->publish_output("web", {.process = 2, .is_stderr = true, .time = 1'600'000'000'000'000, .text = "new"});
    server->end_round();
    std::string const text = reply(*client);
    expect_declared(method("Logs"), text);
    EXPECT_EQ(text, R"({"parameters":{"lines":[{"process":2,"stream":"stderr","time":1600000000000000,"text":"new"}]},)"
                    R"("continues":true})");
}

// Upgrade.

TEST_F(ControlServerTest, AnUpgradeIsAnsweredWhenItsFateIsKnown) {
    start();
    auto const client = connect();
    client->call(method("Upgrade"), R"({"path":"/new"})", true);
    until([this] { return !backend.done.empty(); });
    server->answer_upgrade(ControlServer::UpgradeVersions{"1", "2"});
    std::string const text = reply(*client);
    expect_declared(method("Upgrade"), text);
    EXPECT_EQ(text, R"({"parameters":{"from":"1","to":"2"},"continues":true})");
    server->answer_upgrade(std::unexpected(ControlError{ControlError::Kind::failed, "execve", {"loses x"}}));
    EXPECT_EQ(reply(*client), error(method("Failed"), R"({"reason":"execve","details":["loses x"]})"));
    client->call(service("GetInfo"));
    EXPECT_THAT(reply(*client), HasSubstr("vendor"));
}

TEST_F(ControlServerTest, AnUpgradeMayBeAnsweredFromInside) {
    start();
    backend.on_command = [this] { server->answer_upgrade(ControlServer::UpgradeVersions{"1", "2"}); };
    EXPECT_EQ(ask_declared(method("Upgrade"), R"({"path":"/new"})"), R"({"parameters":{"from":"1","to":"2"}})");
}

/// The shell may end its round, publish and change states inside of a command.
TEST_F(ControlServerTest, WhatACommandBringsAboutMayComeFromInside) {
    start();
    backend.add("web", 1);
    auto const subscriber = connect();
    subscriber->call(method("Subscribe"), "{}", true);
    (void)reply(*subscriber);
    backend.on_command = [this] {
        server->publish(R"({"event":"inside"})");
        server->state_changed();
        server->end_round();
        server->time_passed();
    };
    auto const client = connect();
    std::string calls;
    for (int i = 0; i < 5; ++i)
        calls += varlink_call(method("Stop"), R"({"program":"web"})", false);
    client->send(calls);
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(reply(*client), R"({"parameters":{}})");
        EXPECT_THAT(reply(*subscriber), HasSubstr("inside"));
    }
}

// Hostile and unlucky clients.

TEST_F(ControlServerTest, GarbageIsAnErrorAndTheEnd) {
    start();
    for (std::string const& garbage :
         {std::string(R"({"method":)") + '\0', std::string(1, '\0'), std::string("\xff\xfe\x80") + '\0'}) {
        auto const client = connect();
        client->send(garbage);
        client->call(service("GetInfo"));
        std::string const text = reply(*client);
        expect_declared("", text);
        EXPECT_THAT(text, StartsWith(R"({"error":"org.tritonlaunch.Launcher.BadMessage")"));
        EXPECT_EQ(reply(*client), "(end)");
    }
}

TEST_F(ControlServerTest, ACallThatIsTooLongIsRefusedBeforeItIsWhole) {
    start({.input_bytes = 4096});
    auto const client = connect();
    client->send(std::string(5000, 'x'));
    EXPECT_EQ(reply(*client), error(method("BadMessage"), R"({"reason":"longer than a call may be"})"));
    EXPECT_EQ(reply(*client), "(end)");
}

TEST_F(ControlServerTest, ACallThatDoesNotGoOnIsGivenUp) {
    start({.partial = milliseconds(20)});
    auto const client = connect();
    client->send("{");
    EXPECT_EQ(reply(*client), "(end)");
}

TEST_F(ControlServerTest, AClientThatNeverReadsIsGivenUp) {
    start({.unread = milliseconds(20)});
    backend.add("web", 500);
    auto const client = connect();
    client->read(false);
    std::string calls;
    for (int i = 0; i < 100; ++i)
        calls += varlink_call(method("List"), "{}", true);
    client->send(calls);
    until([this, &client] {
        client->read(server->next_deadline() == std::nullopt);  // nothing waits for time: it is gone
        return client->is_ended;
    });
    EXPECT_LT(client->received, std::size_t{2} << 20);
    EXPECT_THAT(ask(service("GetInfo")), HasSubstr("vendor"));
}

TEST_F(ControlServerTest, ASubscriberThatNeverReadsIsGivenUp) {
    start({.output_bytes = 8192, .unread = milliseconds(20)});
    auto const client = connect();
    client->call(method("Subscribe"), "{}", true);
    (void)reply(*client);
    client->read(false);
    for (int i = 0; i < 500; ++i) {
        server->publish(R"({"event":")" + std::string(4000, 'x') + "\"}");
        server->end_round();
    }
    EXPECT_TRUE(server->has_subscribers());
    until([this] { return !server->has_subscribers(); });
}

TEST_F(ControlServerTest, WhenAllPlacesAreTakenTheNextIsTold) {
    start({.clients = 3});
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 3; ++i)
        clients.push_back(connect());
    auto const next = connect();
    std::string const text = reply(*next);
    expect_declared("", text);
    EXPECT_EQ(text, error(method("TooManyClients"), R"({"limit":3})"));
    EXPECT_EQ(reply(*next), "(end)");
    clients.pop_back();
    until_quiet();
}

TEST_F(ControlServerTest, WhoIdlesGivesWay) {
    start({.clients = 2, .evictable = Duration::zero()});
    auto const subscriber = connect();
    subscriber->call(method("Subscribe"), "{}", true);
    (void)reply(*subscriber);
    auto const idle = connect();
    idle->call(service("GetInfo"));
    (void)reply(*idle);
    EXPECT_THAT(ask(service("GetInfo")), HasSubstr("vendor"));
    EXPECT_EQ(reply(*idle), "(end)");
    EXPECT_TRUE(server->has_subscribers());
}

/// A flood costs each round a bounded amount of work, everybody gets on, and others in the loop come between.
TEST_F(ControlServerTest, AFloodIsWorkedOffInSmallPieces) {
    ControlLimits const limits;
    start(limits);
    backend.add("web", 100);
    std::vector<std::unique_ptr<TestClient>> flood;
    std::string calls;
    for (int i = 0; i < 10; ++i)
        calls += varlink_call(method("List"), "{}", false);
    for (int i = 0; i < 32; ++i) {
        flood.push_back(connect());
        flood.back()->send(calls);
    }
    std::size_t most = 0;
    std::size_t before = backend.processes_asked;
    until([&] {
        most = std::max(most, backend.processes_asked - std::exchange(before, backend.processes_asked));
        return std::ranges::all_of(flood, [](auto const& client) { return client->replies.size() == 10; });
    });
    EXPECT_LE(most, limits.work);
}

TEST_F(ControlServerTest, AFloodOfOneDoesNotStarveAnother) {
    start();
    backend.add("web", 100);
    auto const flood = connect();
    std::string calls;
    for (int i = 0; i < 500; ++i)
        calls += varlink_call(method("List"), "{}", false);
    flood->send(calls);
    until([&flood] { return !flood->replies.empty(); });
    EXPECT_THAT(ask(service("GetInfo")), HasSubstr("vendor"));
    EXPECT_LT(flood->replies.size(), 100U);
}

TEST_F(ControlServerTest, AnIdleServerSleeps) {
    start();
    EXPECT_EQ(server->next_deadline(), std::nullopt);
    auto const client = connect();
    client->call(method("Subscribe"), "{}", true);
    (void)reply(*client);
    EXPECT_EQ(server->next_deadline(), std::nullopt);
}

TEST_F(ControlServerTest, ClientsMayGoAtAnyTime) {
    start();
    backend.add("web", 50);
    for (std::string_view const name : {"List", "Subscribe", "Wait", "Logs", "Stop"}) {
        for (int i = 0; i < 20; ++i) {
            auto const client = connect();
            std::string const parameters = name == "List" || name == "Subscribe" ? "{}"
                                           : name == "Wait" ? R"({"program":"web","condition":"done"})"
                                                            : R"({"program":"web"})";
            client->call(method(name), parameters, true);
            if (i % 2 == 0) until_quiet();
            client->close();
        }
    }
    until_quiet();
    EXPECT_FALSE(server->has_subscribers());
    EXPECT_THAT(ask(service("GetInfo")), HasSubstr("vendor"));
}

}  // namespace

}  // namespace triton::launcher
