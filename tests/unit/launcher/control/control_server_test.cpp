#include "launcher/control/control_server.h"

#include <algorithm>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/control/control_calls.h"
#include "tests/unit/launcher/control/control_subject.h"
#include "tests/unit/lib/varlink/varlink_interface.h"

namespace triton::launcher {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ControlServerTest : public ControlSubject {
protected:
    /// The reply's parameters are what the description declares, its errors too.
    static void expect_declared(std::string_view method_name, std::string const& text) {
        auto const reply = varlink::parse_reply(text, text.size());
        ASSERT_TRUE(reply) << text;
        bool const is_error = !reply->error.empty();
        std::string const full = is_error ? reply->error : std::string(method_name);
        std::size_t const dot = full.rfind('.');
        bool const is_ours = full.substr(0, dot) == launcher_interface;
        auto const interface =
            test::parse_interface(is_ours ? interface_description() : varlink::service_description());
        std::string const name = full.substr(dot + 1);
        ASSERT_TRUE(is_error ? interface.errors.contains(name) : interface.methods.contains(name)) << full;
        auto const& type = is_error ? interface.errors.at(name) : interface.methods.at(name).out;
        EXPECT_EQ(test::mismatch(interface, type, reply->parameters), "") << text;
    }
    /// More than a socket holds.
    void send_in_pieces(TestClient& client, std::string_view bytes) {
        constexpr std::size_t piece = 32 * 1024;
        for (std::size_t at = 0; at < bytes.size(); at += piece) {
            client.send(bytes.substr(at, piece));
            until_quiet();
        }
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

std::string service(std::string_view name) { return std::string(varlink::service_interface).append(".").append(name); }

/// A status with every optional value there is.
void fill(FakeBackend& backend) {
    backend.add("web", 2).status.version = "7.3";
    backend.at(0, 2).version = "7.1";
    FakeBackend::Program& job = backend.add("job", 1);
    job.status.is_internal = true;
    job.status.kind = ProgramKind::scheduled;
    job.status.next_run_in = std::chrono::minutes(5);
    job.processes[0].state = ProcessState::backoff;
    job.processes[0].pid.reset();
    job.processes[0].uptime.reset();
    job.processes[0].since_start = std::chrono::milliseconds(2500);
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
    for (auto const& [name, expected] : {std::pair{launcher_interface, interface_description()},
                                         std::pair{varlink::service_interface, varlink::service_description()}}) {
        std::string const text =
            ask_declared(service("GetInterfaceDescription"), R"({"interface":")" + std::string(name) + "\"}");
        auto const reply = varlink::parse_reply(text, text.size());
        ASSERT_TRUE(reply);
        auto const* const description = varlink::find_member(reply->parameters, "description");
        ASSERT_NE(description, nullptr);
        EXPECT_EQ(*description->get<std::string>(), expected);
    }
}

TEST_F(ControlServerTest, ListsHaveAHistoryIfTheyAreToHaveIt) {
    start();
    backend.add("web", 1);
    backend.at(0, 1).since_end = std::chrono::milliseconds(1500);
    backend.pasts[0][1] = {
        {{.time = 1'700'000'000'500'000, .run = std::chrono::seconds(2), .exit = {.code = 3}},
         {.time = 1'700'000'001'000'000,
          .run = {},
          .exit = {.signal = 9, .was_oom_killed = true},
          .reason = "watchdog"}},
        {{.check = "readiness", .time = 1'700'000'002'000'000, .is_ok = true},
         {.check = "health", .time = 1'700'000'003'000'000, .why = "exit code 7", .output = "bad \xff\n"}}};
    std::string const history = R"("ended_seconds_ago":1.500,"ends":[)"
                                R"({"time":1700000000.500000,"run_seconds":2.000,"code":3,"oom_killed":false},)"
                                R"({"time":1700000001.000000,"run_seconds":0.000,"signal":"SIGKILL","oom_killed":true,)"
                                R"("reason":"watchdog"}],"checks":[)"
                                R"({"check":"readiness","time":1700000002.000000,"ok":true},)"
                                R"({"check":"health","time":1700000003.000000,"ok":false,"why":"exit code 7",)"
                                "\"output\":\"bad \xef\xbf\xbd\\n\"}]}";
    EXPECT_THAT(ask_declared(method("List"), R"({"program":"web","history":true})"), HasSubstr(history));
    EXPECT_THAT(ask_declared(method("List"), R"({"program":"web","history":false})"), testing::Not(HasSubstr("ends")));
}

TEST_F(ControlServerTest, ListsAllOrSome) {
    start();
    fill(backend);
    std::string const web1 =
        R"({"number":1,"state":"up","pid":1001,"uptime_seconds":61.500,"starts":1,"restarts":0,"ready":true,)"
        R"("memory_bytes":1048576,"cpu_seconds":1.500})";
    std::string const web2 =
        R"({"number":2,"state":"up","version":"7.1","pid":1002,"uptime_seconds":61.500,"starts":1,"restarts":0,)"
        R"("ready":true,"memory_bytes":1048576,"cpu_seconds":1.500,"last_exit":{"code":3,"oom_killed":false}})";
    std::string const job =
        R"({"number":1,"state":"backoff","started_seconds_ago":2.500,"starts":1,"restarts":0,"ready":false,"memory_bytes":1048576,)"
        R"("cpu_seconds":1.500,"last_exit":{"signal":"SIGKILL","oom_killed":true},"restart_in_seconds":1.005,)"
        "\"status\":\"bad \xef\xbf\xbd and \\u0001\"}";
    std::string const web_head =
        R"({"name":"web","kind":"service","version":"7.3","internal":false,"wanted":2,"ready":true,"processes":[)";
    std::string const job_head =
        R"({"name":"job","kind":"scheduled","internal":true,"wanted":1,"ready":true,"next_run_in_seconds":300.000,)"
        R"("processes":[)";
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
              R"("rejection":[],"configuration_changes":0,"isolated":false,"programs":["web","job"]}}})");
    backend.status.configuration_changes = 3;
    backend.status.configuration_time = 1'600'000'000'000'020;
    backend.status.is_isolated = true;
    backend.status.reporter = ReporterStatus{"failing", "403 \xff", 1'600'000'000'500'000};
    EXPECT_THAT(ask_declared(method("GetStatus")),
                HasSubstr("\"configuration_changes\":3,\"configuration_time\":1600000000.000020,\"isolated\":true,"
                          "\"reporter\":{\"state\":\"failing\",\"detail\":\"403 \xef\xbf\xbd\","
                          "\"last_success\":1600000000.500000},"));
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

class ListDuringReload : public ControlServerTest, public testing::WithParamInterface<std::size_t> {};

/// Between two parts of a list a reload removes the program that was just being written, or one before it.
TEST_P(ListDuringReload, SkipsNobody) {
    start();
    for (char const* const name : {"a", "b", "c"})
        backend.add(name, 100);
    auto const client = connect();
    client->call(method("List"), "{}", true);
    std::string all;
    bool has_left = false;
    for (bool goes_on = true; goes_on && !HasFailure();) {
        std::string const text = reply(*client);
        goes_on = text.ends_with(R"(,"continues":true})");
        all += text;
        if (!has_left && all.contains(R"("name":"b")")) {
            backend.programs.erase(backend.programs.begin() + static_cast<std::ptrdiff_t>(GetParam()));
            has_left = true;
        }
    }
    EXPECT_TRUE(has_left);
    std::size_t count = 0;
    for (std::size_t at = all.find(R"("name":"c")"); (at = all.find("\"number\":", at)) != std::string::npos; ++at)
        ++count;
    EXPECT_EQ(count, 100U);
}

INSTANTIATE_TEST_SUITE_P(Leaving, ListDuringReload, testing::Values(0U, 1U));

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
    for (varlink::Peer const& peer : backend.peers) {
        EXPECT_EQ(peer.uid, ::geteuid());
        EXPECT_EQ(peer.pid, ::getpid());
    }
}

TEST_F(ControlServerTest, RefusalsAreErrorsWithTheirDetails) {
    start();
    backend.add("web", 1);
    backend.refusal = Error{ErrorKind::refused, {}, "the launcher is stopping", {}};
    EXPECT_EQ(ask_declared(method("Stop"), R"({"program":"web"})"),
              error(method("Refused"), R"({"reason":"the launcher is stopping","details":[]})"));
    backend.refusal = Error{ErrorKind::internal, {}, "rejected", {"line 1: bad", "line 2: worse"}};
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
        calls += varlink::call_text(method("List"), R"({"program":"web","process":)" + std::to_string(i % 3 + 1) + "}",
                                    false);
    client->send(calls);
    for (int i = 0; i < count && !HasFailure(); ++i)
        EXPECT_THAT(reply(*client), HasSubstr("\"number\":" + std::to_string(i % 3 + 1) + ","));
}

TEST_F(ControlServerTest, ACallMayComeByteByByte) {
    start();
    auto const client = connect();
    for (char const byte : varlink::call_text(service("GetInfo"), "{}", false)) {
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

TEST_F(ControlServerTest, ACommandForOneAloneNamesWhomElseItConcerns) {
    start();
    backend.add("web", 2);
    backend.add("db", 1);
    backend.missing[0] = {"db", "api"};
    backend.dependents[1] = {"web"};
    auto const not_alone = [](std::string_view parameters) { return error(method("NotAlone"), parameters); };
    EXPECT_EQ(ask_declared(method("Start"), R"({"program":"web","alone":true})"),
              not_alone(R"({"program":"web","programs":["db","api"]})"));
    EXPECT_EQ(ask_declared(method("Start"), R"({"program":"web","process":2,"alone":true})"),
              not_alone(R"({"program":"web","programs":["db","api"]})"));
    EXPECT_EQ(ask_declared(method("Stop"), R"({"program":"db","alone":true})"),
              not_alone(R"({"program":"db","programs":["web"]})"));
    EXPECT_TRUE(backend.done.empty() && backend.given.empty());
    for (std::string_view const parameters : {R"({"program":"db"})", R"({"program":"db","process":1,"alone":true})"})
        EXPECT_EQ(ask_declared(method("Stop"), parameters), R"({"parameters":{}})");
    EXPECT_EQ(ask_declared(method("Start"), R"({"program":"db","alone":true})"), R"({"parameters":{}})");
    EXPECT_THAT(backend.done, ElementsAre("stop 1", "stop 1:1", "start 1"));
}

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

TEST_F(ControlServerTest, ACommandWaitsForTheOneRunThatItMakes) {
    start();
    backend.add("job", 3).status.kind = ProgramKind::scheduled;
    for (std::uint32_t const number : {1U, 2U, 3U})
        backend.at(0, number).state = number == 1 ? ProcessState::done : ProcessState::down;
    auto const client = connect();
    backend.on_command = [this] { backend.at(0, 2).state = ProcessState::waiting; };
    client->call(method("Start"), R"({"program":"job","wait":true})");
    until_quiet();
    EXPECT_TRUE(client->replies.empty());
    backend.at(0, 2).state = ProcessState::up;
    backend.at(0, 2).starts = 2;
    server->state_changed();
    server->end_round();
    EXPECT_EQ(reply(*client), R"({"parameters":{}})");

    // One that is stopped before it begins is not there, and neither is one that fails.
    client->call(method("Start"), R"({"program":"job","wait":true})");
    until_quiet();
    backend.at(0, 2).state = ProcessState::held;
    server->state_changed();
    server->end_round();
    EXPECT_EQ(reply(*client), error(method("NotReached"), R"({"program":"job","process":1,"state":"done"})"));
    client->call(method("Restart"), R"({"program":"job","wait":true})");
    until_quiet();
    backend.at(0, 2).state = ProcessState::failed;
    backend.at(0, 2).starts = 3;
    server->state_changed();
    server->end_round();
    EXPECT_EQ(reply(*client), error(method("NotReached"), R"({"program":"job","process":2,"state":"failed"})"));
}

TEST_F(ControlServerTest, ACommandThatWaitsForWhatIsHeldSaysSo) {
    start();
    backend.add("web", 1);
    backend.at(0, 1).state = ProcessState::waiting;
    auto const restart = connect();
    auto const wait = connect();
    restart->call(method("Restart"), R"({"program":"web","wait":true})");
    wait->call(method("Wait"), R"({"program":"web","condition":"ready"})");
    until_quiet();
    EXPECT_TRUE(restart->replies.empty());
    backend.held_up[0] = {"db", "cache"};
    server->state_changed();
    server->end_round();
    EXPECT_EQ(reply(*restart),
              error(method("Refused"), R"({"reason":"waits for what is held or has failed: db, cache","details":[]})"));
    until_quiet();
    EXPECT_TRUE(wait->replies.empty());  // somebody may start them
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

/// They end, and come back only with the configuration.
TEST_F(ControlServerTest, NumbersAboveTheCountAreShownUntilTheyHaveEnded) {
    start();
    backend.add("web", 3).status.wanted = 1;
    backend.at(0, 2).state = ProcessState::down;
    backend.at(0, 2).pid.reset();
    backend.at(0, 3).state = ProcessState::stopping;
    std::string const text = ask_declared(method("List"));
    EXPECT_THAT(text, HasSubstr(R"("number":1)"));
    EXPECT_THAT(text, Not(HasSubstr(R"("number":2)")));
    EXPECT_THAT(text, HasSubstr(R"({"number":3,"state":"stopping")"));
    auto const no_process = [](int number) {
        return error(method("NoSuchProcess"), R"({"program":"web","process":)" + std::to_string(number) + "}");
    };
    EXPECT_EQ(ask_declared(method("List"), R"({"program":"web","process":2})"), no_process(2));
    for (std::string_view const verb : {"Start", "Restart"}) {
        EXPECT_EQ(ask_declared(method(verb), R"({"program":"web","process":2,"wait":true})"), no_process(2));
        EXPECT_EQ(ask_declared(method(verb), R"({"program":"web","process":3})"), no_process(3));
    }
    EXPECT_THAT(backend.done, ElementsAre());
    EXPECT_EQ(ask_declared(method("Wait"), R"({"program":"web","process":3,"condition":"up"})"), no_process(3));
    EXPECT_EQ(ask(method("Stop"), R"({"program":"web","process":2,"wait":true})"), R"({"parameters":{}})");
}

TEST_F(ControlServerTest, AStartIsOvertakenByALowerCount) {
    start();
    backend.add("web", 2);
    backend.at(0, 2).state = ProcessState::starting;
    auto const one = connect();
    auto const all = connect();
    one->call(method("Start"), R"({"program":"web","process":2,"wait":true})");
    all->call(method("Start"), R"({"program":"web","wait":true})");
    until_quiet();
    backend.programs[0].status.wanted = 1;
    server->state_changed();
    server->end_round();
    EXPECT_EQ(reply(*one), error(method("NoSuchProcess"), R"({"program":"web","process":2})"));
    EXPECT_EQ(reply(*all), R"({"parameters":{}})");

    backend.programs[0].status.wanted = 2;
    all->call(method("Restart"), R"({"program":"web","wait":true})");
    until_quiet();
    backend.programs[0].status.wanted = 0;
    server->state_changed();
    server->end_round();
    EXPECT_EQ(reply(*all), error(method("Refused"),
                                 R"({"reason":"none of its processes is meant to run any longer","details":[]})"));
}

TEST_F(ControlServerTest, AWaitLastsWhileNothingIsToRun) {
    start();
    backend.add("web", 1).status.wanted = 0;
    backend.at(0, 1).state = ProcessState::down;
    EXPECT_EQ(ask(method("Wait"), R"({"program":"web","condition":"down"})"), R"({"parameters":{}})");
    for (std::string_view const condition : {"ready", "up", "done"}) {
        for (std::string_view const process : {"", R"("process":1,)"}) {
            backend.programs[0].status.wanted = 0;
            backend.at(0, 1).state = ProcessState::down;
            auto const client = connect();
            client->call(method("Wait"), R"({"program":"web",)" + std::string(process) + R"("condition":")" +
                                             std::string(condition) + R"("})");
            until_quiet();
            server->state_changed();
            server->end_round();
            until_quiet();
            ASSERT_TRUE(client->replies.empty()) << condition;
            backend.programs[0].status.wanted = 1;
            backend.at(0, 1).state = condition == "done" ? ProcessState::done : ProcessState::up;
            server->state_changed();
            server->end_round();
            EXPECT_EQ(reply(*client), R"({"parameters":{}})") << condition;
        }
    }
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
    EXPECT_FALSE(server->wants_records());
    auto const client = connect();
    client->call(method("Subscribe"), "{}", true);
    EXPECT_EQ(reply(*client), R"({"parameters":{},"continues":true})");
    EXPECT_TRUE(server->wants_records());
    server->publish(R"({"event":"process-started","process":1})");
    server->publish(R"({"event":"process-exited"})");
    server->end_round();
    std::string const text = reply(*client);
    expect_declared(method("Subscribe"), text);
    EXPECT_EQ(text, R"({"parameters":{"event":{"event":"process-started","process":1}},"continues":true})");
    EXPECT_THAT(reply(*client), HasSubstr("process-exited"));
    client->close();
    until([this] { return !server->wants_records(); });
}

TEST_F(ControlServerTest, TheAgentHearsFirstWhatItWasNotThereToHear) {
    keeps_for_agent = true;
    start();
    EXPECT_TRUE(server->wants_records());
    server->publish(R"({"event":"started"})");
    server->publish(R"({"event":"exited"})", true);
    server->publish(R"({"event":"gave-up"})", true);
    auto const person = connect();
    person->call(method("Subscribe"), "{}", true);
    EXPECT_EQ(reply(*person), R"({"parameters":{},"continues":true})");
    server->publish(R"({"event":"later"})", true);
    server->end_round();
    EXPECT_THAT(reply(*person), HasSubstr("later"));
    {
        auto const agent = adopted();
        agent->call(method("Subscribe"), "{}", true);
        EXPECT_EQ(reply(*agent), R"({"parameters":{},"continues":true})");
        for (std::string_view const event : {"exited", "gave-up", "later"})
            EXPECT_THAT(reply(*agent), HasSubstr(event));
        server->publish(R"({"event":"heard"})", true);
        server->end_round();
        EXPECT_THAT(reply(*agent), HasSubstr("heard"));
        agent->close();
    }
    until_quiet();
    server->publish(R"({"event":"meanwhile"})", true);
    auto const next = adopted();
    next->call(method("Subscribe"), "{}", true);
    (void)reply(*next);
    EXPECT_THAT(reply(*next), HasSubstr("meanwhile"));
    until_quiet();
    EXPECT_TRUE(next->replies.empty());
}

TEST_F(ControlServerTest, OfWhatIsKeptForTheAgentTheOldestGivesWay) {
    keeps_for_agent = true;
    start({.kept_bytes = 1000});
    for (int i = 0; i < 100; ++i)
        server->publish(R"({"event":")" + std::to_string(i) + "\"}", true);
    server->publish(R"({"event":")" + std::string(1000, 'x') + "\"}", true);
    auto const agent = adopted();
    agent->call(method("Subscribe"), "{}", true);
    (void)reply(*agent);
    std::string const first = reply(*agent);
    expect_declared(method("Subscribe"), first);
    until([&] { return !agent->replies.empty() && agent->replies.back().contains(R"("99")"); });
    std::size_t const kept = agent->replies.size();
    EXPECT_EQ(first, R"({"parameters":{"lost":)" + std::to_string(101 - kept) + R"(},"continues":true})");
    EXPECT_GE(kept, 10U);
    EXPECT_THAT(agent->replies.front(), HasSubstr("\"" + std::to_string(100 - kept) + "\""));
}

TEST_F(ControlServerTest, NothingIsKeptWhereNoAgentIsToCome) {
    start();
    EXPECT_FALSE(server->wants_records());
    server->publish(R"({"event":"exited"})", true);
    auto const agent = adopted();
    agent->call(method("Subscribe"), "{}", true);
    (void)reply(*agent);
    until_quiet();
    EXPECT_TRUE(agent->replies.empty());
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
        auto const parsed = varlink::parse_reply(text, text.size());
        ASSERT_TRUE(parsed && parsed->continues) << text;
        if (auto const* const number = varlink::find_member(parsed->parameters, "lost")) {
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

/// All that are kept, however long the answer is, and behind them what comes meanwhile.
TEST_F(ControlServerTest, ALongLogComesInParts) {
    start();
    FakeBackend::Program& web = backend.add("web", 1);
    for (int i = 0; i < 300; ++i)
        web.lines.push_back("line " + std::to_string(i) + " " + std::string(1000, '\xff'));
    auto const texts = [this](TestClient& client, std::size_t count) {
        std::vector<std::string> found;
        for (bool goes_on = true; goes_on && found.size() < count;) {
            std::string const part = reply(client);
            EXPECT_LE(part.size(), ControlLimits{}.output_bytes);
            EXPECT_THAT(part, Not(HasSubstr("\"lost\"")));
            expect_declared(method("Logs"), part);
            for (std::size_t at = 0; (at = part.find(R"("text":"line )", at)) != std::string::npos; ++at)
                found.push_back(part.substr(at + 13, part.find(' ', at + 13) - at - 13));
            goes_on = part.contains(R"("continues":true)");
        }
        return found;
    };
    std::vector<std::string> wanted;
    for (int i = 50; i < 300; ++i)
        wanted.push_back(std::to_string(i));
    auto const client = connect();
    client->call(method("Logs"), R"({"program":"web","lines":250})", true);
    EXPECT_EQ(texts(*client, 1000), wanted);

    client->call(method("Logs"), R"({"program":"web","lines":250,"follow":true})", true);
    until([&client] { return !client->replies.empty(); });
    EXPECT_FALSE(client->replies.front().contains("line 299 "));
    server->publish_output("web", {.text = "line 300 "});
    wanted.emplace_back("300");
    EXPECT_EQ(texts(*client, wanted.size()), wanted);
    server->publish_output("web", {.text = "line 301 "});
    server->end_round();
    EXPECT_THAT(texts(*client, 1), ElementsAre("301"));
}

TEST_F(ControlServerTest, OfWhatComesWhileALongLogIsReadTheRestIsCounted) {
    start({.line_bytes = 400 * 1024});
    FakeBackend::Program& web = backend.add("web", 1);
    std::string const line = "line " + std::string(1000, '\xff');
    web.lines.assign(250, line);
    auto const client = connect();
    client->read(false);
    client->call(method("Logs"), R"({"program":"web","lines":250,"follow":true})", true);
    until_quiet();
    for (int i = 0; i < 200; ++i)
        server->publish_output("web", {.text = line});
    client->read();
    std::size_t found = 0;
    std::string part;
    while (!part.contains("\"lost\"")) {
        part = reply(*client);
        ASSERT_THAT(part, HasSubstr(R"("continues":true)"));
        for (std::size_t at = 0; (at = part.find(R"("text":"line )", at)) != std::string::npos; ++at)
            ++found;
    }
    EXPECT_GT(found, 250U);
    EXPECT_EQ(part, R"({"parameters":{"lines":[],"lost":)" + std::to_string(450 - found) + R"(},"continues":true})");
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
    server->answer_upgrade(UpgradeVersions{"1", "2"});
    std::string const text = reply(*client);
    expect_declared(method("Upgrade"), text);
    EXPECT_EQ(text, R"({"parameters":{"from":"1","to":"2"},"continues":true})");
    server->answer_upgrade(std::unexpected(Error{ErrorKind::internal, {}, "execve", {"loses x"}}));
    EXPECT_EQ(reply(*client), error(method("Failed"), R"({"reason":"execve","details":["loses x"]})"));
    client->call(service("GetInfo"));
    EXPECT_THAT(reply(*client), HasSubstr("vendor"));
}

TEST_F(ControlServerTest, AnUpgradeNeedsAnAbsolutePath) {
    start();
    for (std::string_view const given : {R"("")", R"("new")", R"("./new")"}) {
        EXPECT_EQ(ask_declared(method("Upgrade"), R"({"path":)" + std::string(given) + "}"),
                  error(service("InvalidParameter"), R"({"parameter":"path"})"))
            << given;
    }
    EXPECT_THAT(backend.done, ElementsAre());
}

TEST_F(ControlServerTest, AnUpgradeMayBeAnsweredFromInside) {
    start();
    backend.on_command = [this] { server->answer_upgrade(UpgradeVersions{"1", "2"}); };
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
        calls += varlink::call_text(method("Stop"), R"({"program":"web"})", false);
    client->send(calls);
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(reply(*client), R"({"parameters":{}})");
        EXPECT_THAT(reply(*subscriber), HasSubstr("inside"));
    }
}

// Staging.

TEST_F(ControlServerTest, AStagingIsAnsweredWhenItIsDone) {
    start();
    std::vector<std::uint64_t> tickets;
    backend.on_stage = [&](StagingKind, std::uint64_t ticket) { tickets.push_back(ticket); };
    auto const first = connect();
    first->call(method("Stage"), R"({"what":"binaries"})");
    until([&] { return tickets.size() == 1; });
    auto const second = adopted();
    second->call(method("Stage"), R"({"what":"all"})");
    until([&] { return tickets.size() == 2; });
    EXPECT_THAT(backend.given, ElementsAre("stage binaries", "stage all"));
    server->answer_stage(tickets[1], StagingAnswer{{"/out/a"}, {"cannot copy b"}});
    server->end_round();
    std::string const text = reply(*second);
    expect_declared(method("Stage"), text);
    EXPECT_EQ(text, R"({"parameters":{"files":["/out/a"],"errors":["cannot copy b"]}})");
    EXPECT_TRUE(first->replies.empty());
    server->answer_stage(tickets[0], std::unexpected(Error{ErrorKind::internal, {}, "no child", {}}));
    server->answer_stage(tickets[0], StagingAnswer{});  // only once
    server->answer_stage(99, StagingAnswer{});
    server->end_round();
    EXPECT_EQ(reply(*first), error(method("Failed"), R"({"reason":"no child","details":[]})"));
    first->call(service("GetInfo"));
    EXPECT_THAT(reply(*first), HasSubstr("vendor"));
}

TEST_F(ControlServerTest, AStagingMayBeAnsweredFromInsideAndItsCallerMayGo) {
    start();
    std::uint64_t last = 0;
    backend.on_stage = [&](StagingKind, std::uint64_t ticket) {
        last = ticket;
        server->answer_stage(ticket, StagingAnswer{{"/out/a"}, {}});
    };
    EXPECT_EQ(ask_declared(method("Stage"), R"({"what":"monitor_conf"})"),
              R"({"parameters":{"files":["/out/a"],"errors":[]}})");
    backend.on_stage = [&last](StagingKind, std::uint64_t ticket) { last = ticket; };
    auto const client = connect();
    std::uint64_t const before = last;
    client->call(method("Stage"), R"({"what":"files"})");
    until([&] { return last != before; });
    client->close();
    until_quiet();
    server->answer_stage(last, StagingAnswer{});
    EXPECT_THAT(ask(service("GetInfo")), HasSubstr("vendor"));
}

TEST_F(ControlServerTest, OfAStagingOfManyFilesTheRestIsCounted) {
    start({.output_bytes = 8192});
    backend.on_stage = [this](StagingKind, std::uint64_t ticket) {
        server->answer_stage(
            ticket, StagingAnswer{std::vector<std::string>(1000, std::string(50, 'f')), {"cannot copy x: ENOSPC"}});
    };
    std::string const text = ask_declared(method("Stage"), R"({"what":"all"})");
    EXPECT_LE(text.size(), 8192U);
    EXPECT_THAT(text, HasSubstr(R"("errors":["cannot copy x: ENOSPC"])"));
    std::size_t shown = 0;
    for (std::size_t at = 0; (at = text.find("\"ffff", at)) != std::string::npos; ++at)
        ++shown;
    EXPECT_GT(shown, 10U);
    EXPECT_THAT(text, HasSubstr("\"lost\":" + std::to_string(1000 - shown) + "}"));
}

// The configuration.

TEST_F(ControlServerTest, TheConfigurationIsToldOnceOrAtEachChange) {
    start();
    EXPECT_EQ(ask_declared(method("WatchConfiguration")),
              R"({"parameters":{"sequence":0,"environment":{},"rejection":[]}})");
    auto const client = connect();
    client->call(method("WatchConfiguration"), "{}", true);
    EXPECT_THAT(reply(*client), HasSubstr("\"sequence\":0,"));
    backend.configuration = "{\n\"a\": \"\xff\"}";
    backend.environment = {{"BINARY_DIR", "/b"}, {"X\"", "\xff"}};
    backend.rejection = {"line 1: bad"};
    for (int i = 0; i < 3; ++i) {  // of one round: one answer
        ++backend.sequence;
        server->configuration_changed();
    }
    server->state_changed();
    server->end_round();
    std::string const text = reply(*client);
    expect_declared(method("WatchConfiguration"), text);
    EXPECT_EQ(text,
              "{\"parameters\":{\"sequence\":3,\"configuration\":\"{\\n\\\"a\\\": \\\"\xef\xbf\xbd\\\"}\","
              "\"environment\":{\"BINARY_DIR\":\"/b\",\"X\\\"\":\"\xef\xbf\xbd\"},"
              "\"accepted_at\":1600000000.000001,\"rejection\":[\"line 1: bad\"]},\"continues\":true}");
    until_quiet();
    EXPECT_TRUE(client->replies.empty());
    EXPECT_EQ(backend.configurations_asked, 3U);
}

/// A thousand changes that nobody reads cost one answer, and the last one is told.
TEST_F(ControlServerTest, OfChangesThatCameTooFastTheLastIsTold) {
    start();
    auto const client = adopted();
    client->call(method("WatchConfiguration"), "{}", true);
    (void)reply(*client);
    client->read(false);
    backend.configuration = std::string(1 << 18, '"');  // twice that on the wire: more than a socket holds
    for (int i = 0; i < 1000; ++i) {
        ++backend.sequence;
        server->configuration_changed();
        server->end_round();
    }
    EXPECT_LE(backend.configurations_asked, 3U);
    client->read();
    until([&] { return !client->replies.empty() && client->replies.back().contains("\"sequence\":1000,"); });
    EXPECT_LE(client->replies.size(), 2U);
    EXPECT_GT(client->replies.back().size(), std::size_t{2} << 18);
}

TEST_F(ControlServerTest, AConfigurationThatIsTooLongForAPersonIsAnError) {
    start();
    backend.configuration = std::string(1 << 20, ' ');
    EXPECT_EQ(ask_declared(method("WatchConfiguration")),
              error(method("Failed"), R"({"reason":"the answer is too long to be sent","details":[]})"));
}

// The agent.

TEST_F(ControlServerTest, EachRoleMayCallWhatIsItsOwn) {
    start();
    backend.add("web", 1);
    backend.on_stage = [this](StagingKind, std::uint64_t ticket) { server->answer_stage(ticket, StagingAnswer{}); };
    struct Row {
        std::string_view method;
        std::string parameters;
        bool of_agent;
        bool of_person;
        bool of_steward = of_agent;
    };
    std::string const web = R"({"program":"web"})";
    std::vector<Row> const rows{
        {"GetStatus", "{}", true, true},
        {"List", "{}", true, true},
        {"Describe", web, true, true},
        {"Reload", "{}", true, true},
        {"Subscribe", "{}", true, true},
        {"Stage", R"({"what":"all"})", true, true},
        {"WatchConfiguration", "{}", true, true},
        {"Start", web, false, true, true},
        {"Stop", web, false, true, true},
        {"Restart", web, false, true, true},
        {"Signal", R"({"program":"web","signal":"KILL"})", false, true, true},
        {"Wait", R"({"program":"web","condition":"up"})", false, true},
        {"Logs", web, false, true, true},
        {"Attach", web, false, true},
        {"Upgrade", R"({"path":"/x"})", false, true},
        {"Probes", "{}", true, false},
        {"ProbeResult", R"({"id":1,"ok":true,"detail":""})", true, false},
        {"SetPod", R"({"isolated":false,"shutdown_delay_seconds":0,"variables":{}})", true, false},
        {"SetReporter", R"({"reporter":{"state":"ok","detail":""}})", true, false},
    };
    EXPECT_EQ(rows.size(), control_methods().size());
    std::string const denied = error(service("PermissionDenied"), "{}");
    backend.on_command = [this] { server->answer_upgrade(UpgradeVersions{"1", "2"}); };
    for (Row const& row : rows) {
        for (ControlRole const role : {ControlRole::agent, ControlRole::person, ControlRole::steward}) {
            backend.done.clear();
            backend.given.clear();
            auto const client = role == ControlRole::person ? connect() : adopted(role);
            if (row.method == "Attach")
                client->send(varlink::upgrade_text(method(row.method), row.parameters));
            else
                client->call(method(row.method), row.parameters, true);
            std::string const text = reply(*client);
            expect_declared(method(row.method), text);
            bool const is_allowed = role == ControlRole::person  ? row.of_person
                                    : role == ControlRole::agent ? row.of_agent
                                                                 : row.of_steward;
            if (is_allowed) {
                EXPECT_THAT(text, Not(HasSubstr("\"error\""))) << row.method;
            } else {
                EXPECT_EQ(text, denied) << row.method;
                EXPECT_TRUE(backend.done.empty() && backend.given.empty()) << row.method;
            }
            if (is_allowed) continue;
            client->call(service("GetInfo"));  // a refusal is not an end
            EXPECT_THAT(reply(*client), HasSubstr("vendor"));
        }
    }
    EXPECT_EQ(backend.pods.size() + backend.reporters.size() + backend.results.size(), 6U);
    auto const agent = adopted();  // nor is anything done that nobody waits for
    agent->send(std::string(R"({"oneway":true,"method":"org.tritonlaunch.Launcher.Stop","parameters":)") + web + "}" +
                '\0');
    agent->call(service("GetInfo"));
    EXPECT_THAT(reply(*agent), HasSubstr("vendor"));
    EXPECT_TRUE(backend.done.empty());
}

TEST_F(ControlServerTest, ConnectionOfWhoAttachesIsHandedOn) {
    start();
    backend.add("sh", 1);
    backend.add("two", 2);
    auto const client = connect();
    client->call(method("Attach"), R"({"program":"sh"})");
    EXPECT_THAT(reply(*client), HasSubstr("the call has to ask for an upgrade"));
    client->send(varlink::upgrade_text(method("Attach"), R"({"program":"two"})"));
    EXPECT_THAT(reply(*client), HasSubstr("two has several processes: name one, as two:1"));
    EXPECT_TRUE(backend.attached.empty());
    client->send(
        varlink::upgrade_text(method("Attach"), R"({"program":"two","process":2,"lines":3,"read_only":true})"));
    EXPECT_EQ(reply(*client), R"({"parameters":{"program":"two","process":2}})");
    ASSERT_EQ(backend.attached.size(), 1U);
    auto const& [attachment, connection] = backend.attached.front();
    EXPECT_EQ(attachment.which.number, 2U);
    EXPECT_EQ(attachment.lines, 3U);
    EXPECT_TRUE(attachment.is_read_only && !attachment.follows);
    EXPECT_THAT(backend.given, ElementsAre("watch two:2"));
    EXPECT_EQ(::send(connection.get(), "frame", 5, MSG_NOSIGNAL), 5);
    until([&] { return client->rest == "frame"; });
}

TEST_F(ControlServerTest, WhoSendsMoreThanTheCallIsNotAttached) {
    start();
    backend.add("sh", 1);
    auto const client = connect();
    client->send(varlink::upgrade_text(method("Attach"), R"({"program":"sh"})") + "early");
    until([&] { return client->is_ended; });
    EXPECT_TRUE(backend.attached.empty());
}

TEST_F(ControlServerTest, WhatTheAgentTellsArrives) {
    start();
    auto const agent = adopted();
    auto const ask_agent = [&](std::string_view name, std::string_view parameters) {
        agent->call(method(name), parameters);
        std::string const text = reply(*agent);
        expect_declared(method(name), text);
        EXPECT_EQ(text, R"({"parameters":{}})") << name;
    };
    ask_agent(
        "SetPod",
        R"({"isolated":true,"shutdown_delay_seconds":1.5,"variables":{"NODE_LABEL_b":"2","NODE_LABEL_a":"\u001b"}})");
    ask_agent("SetPod", R"({"isolated":false,"shutdown_delay_seconds":1e300,"variables":{}})");
    PodState pod{true, milliseconds(1500), {{"NODE_LABEL_a", "\x1b"}, {"NODE_LABEL_b", "2"}}};
    ASSERT_EQ(backend.pods.size(), 2U);
    EXPECT_EQ(backend.pods[0], pod);
    EXPECT_GT(backend.pods[1].shutdown_delay, std::chrono::hours(24 * 365 * 99));
    EXPECT_LT(backend.pods[1].shutdown_delay, std::chrono::hours(24 * 365 * 101));
    ask_agent("SetReporter", R"({"reporter":{"state":"failing","detail":"403","last_success":1600000000.25}})");
    ask_agent("SetReporter", R"({"reporter":{"state":"off","detail":"","last_success":null}})");
    EXPECT_THAT(backend.reporters, ElementsAre(ReporterStatus{"failing", "403", 1'600'000'000'250'000},
                                               ReporterStatus{"off", "", std::nullopt}));
    ask_agent("ProbeResult", R"({"id":7,"ok":false,"detail":")" + std::string(2000, 'x') + "\"}");
    EXPECT_THAT(backend.results, ElementsAre("7 not ok " + std::string(1024, 'x')));
}

TEST_F(ControlServerTest, AsManyVariablesAsMayBe) {
    start();
    auto const agent = adopted();
    auto const set_pod = [&](std::size_t count, std::string const& value) {
        std::string variables;
        for (std::size_t i = 0; i < count; ++i) {
            variables.append(i == 0 ? "" : ",")
                .append("\"NODE_LABEL_")
                .append(std::to_string(1000 + i))
                .append("\":\"");
            variables.append(value).append("\"");
        }
        std::string const parameters =
            R"({"isolated":false,"shutdown_delay_seconds":0,"variables":{)" + variables + "}}";
        send_in_pieces(*agent, varlink::call_text(method("SetPod"), parameters, false));
        return reply(*agent);
    };
    std::string const refused = error(service("InvalidParameter"), R"({"parameter":"variables"})");
    std::string escaped;  // as long as it gets on the wire: six bytes for each
    for (int i = 0; i < 50; ++i)
        escaped += "\\u0001";
    EXPECT_EQ(set_pod(1000, escaped), R"({"parameters":{}})");
    ASSERT_EQ(backend.pods.size(), 1U);
    EXPECT_EQ(backend.pods[0].variables.size(), 1000U);
    EXPECT_EQ(backend.pods[0].variables[999].second, std::string(50, '\1'));
    EXPECT_EQ(set_pod(1001, ""), refused);
    EXPECT_EQ(set_pod(1, std::string(most_variable_bytes - 15, 'x')), R"({"parameters":{}})");
    EXPECT_EQ(set_pod(1, std::string(most_variable_bytes - 14, 'x')), refused);
    EXPECT_EQ(backend.pods.size(), 2U);
}

TEST_F(ControlServerTest, ProbesGoToWhoListens) {
    start();
    server->send_probe({.id = 1, .kind = config::ProbeKind::tcp, .target = "nobody", .timeout = {}});
    auto const agent = adopted();
    backend.on_probes = [this](bool is_wanted) {
        if (is_wanted) server->send_probe({2, config::ProbeKind::tcp, "127.0.0.1:80", milliseconds(1500)});
    };
    agent->call(method("Probes"), "{}", true);
    EXPECT_EQ(reply(*agent), R"({"parameters":{},"continues":true})");
    std::string const first = reply(*agent);
    expect_declared(method("Probes"), first);
    EXPECT_EQ(first, R"({"parameters":{"id":2,"kind":"tcp","target":"127.0.0.1:80","timeout_seconds":1.500},)"
                     R"("continues":true})");
    server->send_probe({3, config::ProbeKind::http, "http://[::1]/\xff", std::chrono::seconds(1)});
    server->cancel_probe(2);
    server->end_round();
    EXPECT_EQ(reply(*agent),
              "{\"parameters\":{\"id\":3,\"kind\":\"http\",\"target\":\"http://[::1]/\xef\xbf\xbd\","
              "\"timeout_seconds\":1.000},\"continues\":true}");
    std::string const cancelled = reply(*agent);
    expect_declared(method("Probes"), cancelled);
    EXPECT_EQ(cancelled, R"({"parameters":{"id":2},"continues":true})");
    EXPECT_THAT(backend.wanted, ElementsAre(true));
    agent->close();
    until([this] { return backend.wanted.size() == 2; });
    EXPECT_FALSE(backend.wanted[1]);
    EXPECT_EQ(server->next_deadline(), std::nullopt);
}

TEST_F(ControlServerTest, TheLastWhoListensForProbesGetsThem) {
    start();
    auto const first = adopted();
    first->call(method("Probes"), "{}", true);
    (void)reply(*first);
    auto const second = adopted();
    second->call(method("Probes"), "{}", true);
    EXPECT_EQ(reply(*second), R"({"parameters":{},"continues":true})");
    EXPECT_EQ(reply(*first), "(end)");
    server->send_probe({5, config::ProbeKind::tcp, "localhost:1", std::chrono::seconds(1)});
    server->end_round();
    EXPECT_THAT(reply(*second), HasSubstr("\"id\":5,"));
    EXPECT_THAT(backend.wanted, ElementsAre(true, false, true));
}

/// What it does not take in time it would answer too late; it may come back.
TEST_F(ControlServerTest, AnAgentThatDoesNotReadItsProbesIsCutOff) {
    start({.output_bytes = 8192});
    auto const agent = adopted();
    agent->call(method("Probes"), "{}", true);
    (void)reply(*agent);
    agent->read(false);
    std::string const target(1000, 'x');
    int sent = 0;
    while (server->next_deadline() != loop->now() && sent < 10'000) {
        server->send_probe(
            {static_cast<std::uint64_t>(++sent), config::ProbeKind::tcp, target, std::chrono::seconds(1)});
        server->end_round();
    }
    EXPECT_LT(sent, 10'000);
    EXPECT_THAT(backend.wanted, ElementsAre(true));  // not from inside of what the launcher has called
    until([this] { return backend.wanted.size() == 2; });
    EXPECT_FALSE(backend.wanted[1]);
    agent->read();
    until([&] { return agent->is_ended; });
    auto const again = adopted();
    again->call(method("Probes"), "{}", true);
    EXPECT_EQ(reply(*again), R"({"parameters":{},"continues":true})");
}

TEST_F(ControlServerTest, AnAgentThatReadsNothingIsGivenUp) {
    start({.unread = milliseconds(20)});
    auto const agent = adopted();
    backend.configuration = std::string(1 << 20, ' ');
    agent->read(false);
    agent->call(method("WatchConfiguration"), "{}", true);
    until([this] { return backend.configurations_asked == 1; });
    until([this] { return server->next_deadline() == std::nullopt; });
    agent->read();
    until([&] { return agent->is_ended; });
}

TEST_F(ControlServerTest, GarbageEndsTheAgentsConnectionAlone) {
    start();
    auto const other = adopted();
    for (std::string const& garbage : {std::string("\xff\xfe") + '\0', std::string(R"({"method":1})") + '\0'}) {
        auto const agent = adopted();
        agent->send(garbage);
        EXPECT_THAT(reply(*agent), StartsWith(R"({"error":"org.tritonlaunch.Launcher.BadMessage")"));
        EXPECT_EQ(reply(*agent), "(end)");
    }
    auto const agent = adopted();
    send_in_pieces(*agent, std::string(ControlLimits{}.adopted_input_bytes, 'x'));
    EXPECT_EQ(reply(*agent), error(method("BadMessage"), R"({"reason":"longer than a call may be"})"));
    other->call(service("GetInfo"));
    EXPECT_THAT(reply(*other), HasSubstr("vendor"));
}

TEST_F(ControlServerTest, TheAgentTakesNoPlaceOfTheClientsAndKeepsItsOwn) {
    start({.clients = 2, .reserved = 0, .evictable = Duration::zero(), .adopted = 3});
    std::vector<std::unique_ptr<TestClient>> agents;
    for (int i = 0; i < 3; ++i)
        agents.push_back(adopted());
    auto const subscriber = connect();
    subscriber->call(method("Subscribe"), "{}", true);
    (void)reply(*subscriber);
    for (int i = 0; i < 4; ++i)  // each takes the place of the one before
        EXPECT_THAT(ask(service("GetInfo")), HasSubstr("vendor"));
    agents.push_back(adopted());  // one too many
    EXPECT_EQ(reply(*agents[0]), "(end)");
    for (std::size_t i = 1; i < agents.size(); ++i) {
        agents[i]->call(service("GetInfo"));
        EXPECT_THAT(reply(*agents[i]), HasSubstr("vendor"));
    }
    EXPECT_TRUE(server->wants_records());
}

TEST_F(ControlServerTest, WhatIsNoConnectionIsNotAdopted) {
    start();
    server->adopt(UniqueFd{::open("/dev/null", O_RDWR | O_CLOEXEC)}, ControlRole::agent);
    server->adopt(UniqueFd{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)}, ControlRole::agent);
    server->adopt(UniqueFd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}, ControlRole::agent);
    server->adopt(UniqueFd{}, ControlRole::agent);
    EXPECT_THAT(backend.failures, ::testing::SizeIs(4));
    EXPECT_THAT(backend.failures, ::testing::Each("what was handed over is not a connection"));
    server->adopt(UniqueFd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)}, ControlRole::agent);  // of nobody
    until_quiet();
    EXPECT_EQ(server->next_deadline(), std::nullopt);
}

/// Somebody's connection that came another way has a person's rights.
TEST_F(ControlServerTest, AnAdoptedPersonIsOne) {
    start();
    backend.add("web", 1);
    auto const client = adopted(ControlRole::person);
    client->call(method("Stop"), R"({"program":"web"})");
    EXPECT_EQ(reply(*client), R"({"parameters":{}})");
    client->call(method("Probes"), "{}", true);
    EXPECT_EQ(reply(*client), error(service("PermissionDenied"), "{}"));
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
        calls += varlink::call_text(method("List"), "{}", true);
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
    EXPECT_TRUE(server->wants_records());
    until([this] { return !server->wants_records(); });
}

TEST_F(ControlServerTest, WhenAllPlacesAreTakenTheNextIsTold) {
    start({.clients = 3, .reserved = 0});
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
    start({.clients = 2, .reserved = 0, .evictable = Duration::zero()});
    auto const subscriber = connect();
    subscriber->call(method("Subscribe"), "{}", true);
    (void)reply(*subscriber);
    auto const idle = connect();
    idle->call(service("GetInfo"));
    (void)reply(*idle);
    EXPECT_THAT(ask(service("GetInfo")), HasSubstr("vendor"));
    EXPECT_EQ(reply(*idle), "(end)");
    EXPECT_TRUE(server->wants_records());
}

/// A flood costs each round a bounded amount of work, everybody gets on, and others in the loop come between.
/// The attack: as many connections as there are places, each of which says nothing, or never ends its call.
TEST_F(ControlServerTest, ACrowdLocksNoOwnerOut) {
    start({.clients = 4, .reserved = 2});
    auto const agent = adopted();  // has done nothing for longer than anybody, and has a place of its own
    std::vector<std::unique_ptr<TestClient>> crowd;
    for (int i = 0; i < 12; ++i) {
        crowd.push_back(connect());
        if (i % 2 == 0) crowd.back()->send("{");  // half of a call
        until_quiet();
    }
    EXPECT_THAT(ask(service("GetInfo")), HasSubstr("vendor"));
    EXPECT_EQ(reply(*crowd[0]), "(end)");  // who was there first made way
    EXPECT_FALSE(agent->is_ended);
}

/// Those who wait for an answer make way after those who do nothing.
TEST_F(ControlServerTest, WhoIdlesMakesWayBeforeWhoListens) {
    start({.clients = 1, .reserved = 1});
    auto const subscriber = connect();
    subscriber->call(method("Subscribe"), "{}", true);
    EXPECT_THAT(reply(*subscriber), HasSubstr("continues"));
    auto const idle = connect();
    idle->call(service("GetInfo"));
    (void)reply(*idle);
    EXPECT_THAT(ask(service("GetInfo")), HasSubstr("vendor"));
    EXPECT_EQ(reply(*idle), "(end)");
    EXPECT_FALSE(subscriber->is_ended);
    EXPECT_TRUE(server->wants_records());
}

TEST_F(ControlServerTest, WhoIdlesKeepsItsPlaceWhileSomethingIsToBeReadByIt) {
    start({.clients = 2, .reserved = 0, .evictable = Duration::zero()});
    backend.add("many", 20000);
    auto const slow = connect();
    slow->read(false);
    slow->call(method("List"), "{}", true);
    slow->shut_down_writing();
    auto const agent_connection = adopted();
    auto const other = connect();
    other->call(method("Subscribe"), "{}", true);
    (void)reply(*other);
    EXPECT_EQ(ask(service("GetInfo")), error(method("TooManyClients"), R"({"limit":2})"));
    slow->read();
    until([&] { return slow->is_ended; });
    EXPECT_THAT(slow->replies.back(), HasSubstr(R"("number":20000,)"));
    agent_connection->call(service("GetInfo"));
    EXPECT_THAT(reply(*agent_connection), HasSubstr("vendor"));
}

TEST_F(ControlServerTest, WhoBelongsToASandboxOrToTheAgentIsRefused) {
    start();
    struct Row {
        ProcessOwner owner;
        std::string why;
    };
    for (Row const& row : {Row{ProcessOwner::agent, "it belongs to the agent"},
                           Row{ProcessOwner::sandboxed, "it belongs to a program with a sandbox"}}) {
        server.reset();
        start();
        backend.failures.clear();
        backend.owners = {{::getpid(), row.owner}};
        EXPECT_EQ(ask(method("Stop"), R"({"program":"web"})"), error(service("PermissionDenied"), "{}"));
        EXPECT_EQ(ask(method("GetStatus")), error(service("PermissionDenied"), "{}"));
        std::string const who =
            "a connection of user " + std::to_string(::getuid()) + ", pid " + std::to_string(::getpid());
        EXPECT_THAT(backend.failures, ElementsAre(who + ", is not allowed: " + row.why));  // the second is not told
        EXPECT_THAT(backend.done, ElementsAre());
    }
    backend.owners = {{::getpid(), ProcessOwner::program}};
    EXPECT_THAT(ask(service("GetInfo")), HasSubstr("vendor"));
}

TEST_F(ControlServerTest, AFloodIsWorkedOffInSmallPieces) {
    ControlLimits const limits;
    start(limits);
    backend.add("web", 100);
    std::vector<std::unique_ptr<TestClient>> flood;
    std::string calls;
    for (int i = 0; i < 10; ++i)
        calls += varlink::call_text(method("List"), "{}", false);
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
        calls += varlink::call_text(method("List"), "{}", false);
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
    EXPECT_FALSE(server->wants_records());
    EXPECT_THAT(ask(service("GetInfo")), HasSubstr("vendor"));
}

}  // namespace

}  // namespace triton::launcher
