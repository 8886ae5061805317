// From a document to what the launcher works with: probes over the network, variables, what is told of both.

#include "launcher/plan/configuration_source.h"

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "launcher/plan/check.h"
#include "launcher/plan/probe_check.h"

namespace triton::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using namespace std::chrono_literals;

constexpr char const* environment[] = {"IP=10.0.0.7",
                                       "IPS=10.0.0.1, fd00::1",
                                       "URL=http://[::1]:8080/live",
                                       "EMPTY=",
                                       "TOKEN=a=b c",
                                       "SMUGGLED=a\r\nX-Admin: yes",
                                       "BOTH=fd00::2",
                                       "BINARY_DIR=/nowhere",
                                       "FROM_ENVIRONMENT=env",
                                       "FROM_LABELS=env",
                                       "FROM_FILE=env",
                                       "PATH_OF_LOG=/x.log",
                                       nullptr};

/// A file with a name, gone at the end.
class TemporaryFile {
public:
    explicit TemporaryFile(std::string const& text) {
        int const fd = ::mkstemp(path_.data());
        EXPECT_GE(fd, 0);
        EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
        ::close(fd);
    }
    TemporaryFile(TemporaryFile const&) = delete;
    TemporaryFile& operator=(TemporaryFile const&) = delete;
    ~TemporaryFile() { ::unlink(path_.c_str()); }

    [[nodiscard]] std::string const& path() const { return path_; }

private:
    std::string path_ = "/tmp/triton-source-test.XXXXXX";
};

SourceOptions options_of_the_design() {
    SourceOptions options;
    options.binary = {.match = config::VersionMatch::exact,
                      .container_version = "7.3.0",
                      .own_path = "/usr/bin/fdbserver",
                      .shared_directory = "/var/dynamic"};
    return options;
}

std::expected<Accepted, Rejected> load(std::string text, SourceOptions const& options = options_of_the_design()) {
    return load_configuration(std::move(text), options, environment, BinaryCheck::skipped);
}

std::string web(std::string const& keys) { return R"({"programs":{"web":{"command":["/bin/web"],)" + keys + "}}}"; }

std::vector<std::string> errors_of(std::string const& keys) {
    auto const loaded = load(web(keys));
    return loaded ? std::vector<std::string>{} : loaded.error().errors;
}

/// HOST:PORT with the process's number times `multiplier` as the port.
std::string numbered(std::string const& host, std::string const& multiplier, std::string const& offset) {
    return R"({"type":"Concatenate","values":[)" + host + R"(,":",{"type":"ProcessNumber","multiplier":)" + multiplier +
           R"(,"offset":)" + offset + "}]}";
}

TEST(NetworkHelpers, BecomeHelpersThatAreRenderedForEachProcess) {
    auto const loaded = load(web(R"("count":3,"readiness":{"type":"tcp","timeout":"3s","interval":"7s","address":)" +
                                 numbered(R"({"type":"Environment","source":"IP"})", "2", "4498") +
                                 R"(},"health":{"type":"http","url":{"type":"Environment","source":"URL"}})"));
    ASSERT_TRUE(loaded) << loaded.error().errors.front();
    ProgramPlan const& plan = *loaded->programs.front();
    HelperPlan const& readiness = plan.helper(Helper::readiness);
    EXPECT_EQ(readiness.start, nullptr);
    EXPECT_EQ(readiness.timeout, 3s);
    ASSERT_TRUE(readiness.network);
    EXPECT_EQ(readiness.network->kind, config::ProbeKind::tcp);
    EXPECT_THAT(readiness.network->target.arguments(ProcessNumber{1}), ElementsAre("10.0.0.7:4500"));
    EXPECT_THAT(readiness.network->target.arguments(ProcessNumber{3}), ElementsAre("10.0.0.7:4504"));
    HelperPlan const& health = plan.helper(Helper::health);
    EXPECT_EQ(health.timeout, 5s);
    ASSERT_TRUE(health.network);
    EXPECT_EQ(health.network->kind, config::ProbeKind::http);
    EXPECT_THAT(health.network->target.arguments(ProcessNumber{2}), ElementsAre("http://[::1]:8080/live"));

    EXPECT_EQ(plan.policy.readiness, Readiness::probed);
    EXPECT_EQ(plan.policy.probe_interval, 7s);
    ASSERT_EQ(plan.policy.checks.size(), 1);
    EXPECT_EQ(plan.policy.checks.front().interval, 10s);
    EXPECT_TRUE(loaded->needs_agent());
    EXPECT_FALSE(plan.helper(Helper::pre_stop).network || plan.helper(Helper::on_failure).network);
}

TEST(NetworkHelpers, AreAPartOfWhatAPlanSays) {
    auto const plan = [](std::string const& probe) {
        auto loaded = load(web(R"("health":)" + probe));
        EXPECT_TRUE(loaded) << probe;
        return std::move(loaded->programs.front());
    };
    auto const one = plan(R"({"type":"tcp","address":"127.0.0.1:1"})");
    EXPECT_EQ(*one, *plan(R"({"type":"tcp","address":"127.0.0.1:1"})"));
    EXPECT_FALSE(*one == *plan(R"({"type":"tcp","address":"127.0.0.1:2"})"));
    EXPECT_FALSE(*one == *plan(R"({"type":"http","url":"http://127.0.0.1:1"})"));
    EXPECT_FALSE(*one == *plan(R"({"command":["/bin/look"]})"));
}

TEST(NetworkHelpers, NeedTheAgentAndCommandsDoNot) {
    auto const needs_agent = [](std::string const& text) { return load(text)->needs_agent(); };
    EXPECT_FALSE(needs_agent(R"({"version":"7.3.0"})"));
    EXPECT_FALSE(needs_agent(R"({"programs":{}})"));
    EXPECT_FALSE(needs_agent(web(R"("readiness":{"type":"notify"},"health":{"command":["/bin/look"]})")));
    EXPECT_TRUE(needs_agent(web(R"("readiness":{"type":"http","url":"http://[::1]"})")));
    EXPECT_TRUE(needs_agent(web(R"("count":0,"health":{"type":"tcp","address":"127.0.0.1:1"})")));
}

/// A value comes from who has made the environment: it stays one field, or the configuration is refused.
TEST(NetworkHelpers, FieldsOfARequestAreCheckedAfterSubstitution) {
    auto const probe = [](std::string const& headers, std::string const& more = "") {
        return web(more + R"("health":{"type":"http","url":"http://[::1]/","headers":)" + headers + "}");
    };
    auto const loaded = load(probe(R"({"Host":"x","X-Token":{"type":"Environment","source":"TOKEN"},)"
                                   R"("X-Number":{"type":"ProcessNumber"}})",
                                   R"("count":2,)"));
    ASSERT_TRUE(loaded) << loaded.error().errors.front();
    auto const& network = *loaded->programs.front()->helper(Helper::health).network;
    EXPECT_THAT(network.headers->arguments(ProcessNumber{2}), ElementsAre("Host=x", "X-Token=a=b c", "X-Number=2"));
    auto const refused = load(probe(R"({"Host":"x","X-Token":{"type":"Environment","source":"SMUGGLED"}})"));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().errors,
                ElementsAre("programs.web.health.headers: the value of X-Token has a control character"));
    auto const long_one = load(probe(R"({"A":")" + std::string(9000, 'x') + R"("})"));
    ASSERT_FALSE(long_one);
    EXPECT_THAT(long_one.error().errors,
                ElementsAre("programs.web.health.headers: the value of A is longer than 8192 bytes"));
    EXPECT_FALSE(*loaded->programs.front() == *load(probe(R"({"Host":"y"})"))->programs.front());
}

TEST(NetworkHelpers, AreCheckedAfterSubstitutionForEveryProcess) {
    auto const address = [](std::string const& argument, std::string const& more = "") {
        return errors_of(more + R"("readiness":{"type":"tcp","address":)" + argument + "}");
    };
    EXPECT_THAT(address(R"({"type":"Environment","source":"IP"})"),
                ElementsAre(R"(programs.web.readiness.address: "10.0.0.7" has no port)"));
    EXPECT_THAT(address(R"({"type":"Environment","source":"NONE"})"),
                ElementsAre("programs.web.readiness.address.source: environment variable NONE is not set"));
    EXPECT_THAT(address(R"({"type":"Concatenate","values":[{"type":"Environment","source":"EMPTY"},":1"]})"),
                ElementsAre("programs.web.readiness.address.values[0].source: environment variable EMPTY is empty"));
    EXPECT_THAT(address(R"({"type":"Concatenate","values":["::1",":1"]})"),
                ElementsAre(R"(programs.web.readiness.address: "::1:1" needs brackets around its IPv6 address)"));
    EXPECT_THAT(address(numbered(R"("127.0.0.1")", "65535", "0")), IsEmpty());
    EXPECT_THAT(address(numbered(R"("127.0.0.1")", "65535", "0"), R"("count":9,)"),
                ElementsAre(R"(programs.web.readiness.address: process 2: "131070" is not a port from 1 to 65535)"));
    EXPECT_THAT(address(numbered(R"("127.0.0.1")", "1", "0"), R"("count":65535,)"), IsEmpty());
    // Those in the middle alone: 19999, .., 64374, 73249, 82124, 9999.
    EXPECT_THAT(address(R"({"type":"Concatenate","values":["127.0.0.1:",{"type":"ProcessNumber"},)"
                        R"({"type":"ProcessNumber","multiplier":-1125,"offset":11124}]})",
                        R"("count":9,)"),
                ElementsAre(R"(programs.web.readiness.address: process 7: "73249" is not a port from 1 to 65535)"));
    EXPECT_THAT(errors_of(R"("health":{"type":"http","url":{"type":"Concatenate","values":["http://","db/"]}})"),
                ElementsAre(R"(programs.web.health.url: "db" is neither an IP address nor localhost)"));
}

TEST(NetworkHelpers, WhatIsWrongIsSaidOnce) {
    EXPECT_THAT(errors_of(R"("readiness":{"type":"tcp","address":"localhost"})"),
                ElementsAre(R"(programs.web.readiness.address: "localhost" has no port)"));
    EXPECT_THAT(errors_of(R"("readiness":{"type":"tcp"},"health":{"type":"http"})"),
                ElementsAre("programs.web.readiness.address: required for type tcp",
                            "programs.web.health.url: required for type http"));
    EXPECT_THAT(errors_of(R"("readiness":{"type":"exec"})"),
                ElementsAre("programs.web.readiness.command: required for type exec"));
}

/// A file has one writer, whoever names it and however.
TEST(OutputFiles, HaveOneWriter) {
    auto const errors = [](std::string const& a, std::string const& b) {
        auto const loaded = load(R"({"programs":{"a":{"command":["/a"],"output":)" + a +
                                 R"(},"b":{"command":["/b"],"output":)" + b + "}}}");
        return loaded ? std::vector<std::string>{} : loaded.error().errors;
    };
    std::string const variable = R"({"type":"Environment","source":"PATH_OF_LOG"})";
    EXPECT_THAT(errors(R"({"file":"/log","stderr":{"file":"/err"}})", R"({"file":"/b"})"), IsEmpty());
    EXPECT_THAT(errors(R"({"file":"/log"})", R"({"file":"/log"})"),
                ElementsAre("programs.b.output.file: /log is also the file of programs.a.output.file"));
    EXPECT_THAT(errors(R"({"stderr":{"file":"/err"}})", R"({"file":"/err","maxFiles":1})"),
                ElementsAre("programs.b.output.file: /err is also the file of programs.a.output.stderr.file"));
    EXPECT_THAT(errors("{\"file\":" + variable + "}", R"({"file":"/b","stderr":{"file":"/x.log","mode":"0600"}})"),
                ElementsAre("programs.b.output.stderr.file: /x.log is also the file of programs.a.output.file"));
    EXPECT_THAT(errors(R"({"file":"/log","stderr":{"file":{"value":"/log"}}})", "{}"),
                ElementsAre("programs.a.output.stderr.file: /log is also the file of programs.a.output.file"));
    config::Layer const first{.file = {}, .text = R"({"programs":{"a":{"command":["/a"],"output":{"file":"/log"}}}})"};
    config::Layer const second{.file = "b.json",
                               .text = R"({"programs":{"b":{"command":["/b"],"output":{"file":"/log"}}}})"};
    auto const loaded = load_configuration(SourceTexts{std::vector{first, second}, std::string()}, {}, environment,
                                           BinaryCheck::skipped, LoadKind::whole, nullptr);
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error().errors,
                ElementsAre("b.json: programs.b.output.file: /log is also the file of programs.a.output.file"));
}

TEST(Variables, TheFileIsBeforeThoseOfTheOptionsAndTheseBeforeTheEnvironment) {
    TemporaryFile const file("FROM_FILE=file\nSECRET=x\n");
    SourceOptions options = options_of_the_design();
    options.environment_file = file.path();
    options.export_environment_file = true;
    options.variables = {{"ZONE", "z1"}, {"FROM_LABELS", "label"}, {"FROM_FILE", "label"}, {"A", "a"}};
    auto const loaded = load(R"({"version":"7.3.0","arguments":[
        {"type":"Environment","source":"FROM_FILE"}, {"type":"Environment","source":"FROM_LABELS"},
        {"type":"Environment","source":"FROM_ENVIRONMENT"}, {"type":"Environment","source":"ZONE"},
        {"type":"Environment","source":"A"}]})",
                             options);
    ASSERT_TRUE(loaded) << loaded.error().errors.front();
    process::StartPlan const& start = *loaded->programs.front()->start;
    EXPECT_THAT(start.command().arguments(ProcessNumber{1}), ElementsAre("file", "label", "env", "z1", "a"));
    EXPECT_THAT(loaded->environment,
                ElementsAre(Pair("A", "a"), Pair("BINARY_DIR", "/usr/bin"), Pair("FROM_ENVIRONMENT", "env"),
                            Pair("FROM_FILE", "file"), Pair("FROM_LABELS", "label"), Pair("ZONE", "z1")));
    // For substitution alone.
    auto const shared = start.environment(ProcessNumber{1}).entries();
    std::vector<std::string> const entries(shared.begin(), shared.end());
    EXPECT_THAT(entries, testing::IsSupersetOf({"FROM_FILE=file", "FROM_LABELS=env", "SECRET=x"}));
    EXPECT_THAT(entries, Not(testing::Contains(testing::StartsWith("ZONE="))));
}

TEST(Variables, ALineOfAnotherFormIsSkippedWithAWarning) {
    TemporaryFile const file("ZONE=z1\nset -e\n");
    SourceOptions options = options_of_the_design();
    options.environment_file = file.path();
    auto const loaded = load(R"({"version":"7.3.0","arguments":[{"type":"Environment","source":"ZONE"}]})", options);
    ASSERT_TRUE(loaded) << loaded.error().errors.front();
    EXPECT_THAT(loaded->warnings, ElementsAre(file.path() + ": line 2: is not of the form NAME=value"));
    TemporaryFile const large(std::string((1 << 20) + 1, '\n'));
    options.environment_file = large.path();
    auto const rejected = load(R"({"version":"7.3.0"})", options);
    ASSERT_FALSE(rejected);
    EXPECT_THAT(rejected.error().errors, ElementsAre("additional environment file: cannot read " + large.path() +
                                                     ": it has more than 1048576 bytes"));
}

TEST(LauncherEnvironment, HasTheChosenAddressAndTheDirectoryOfTheBinary) {
    auto const of = [](std::string const& arguments, std::string const& version = "7.3.0") {
        auto const loaded = load(R"({"version":")" + version + R"(","arguments":[)" + arguments + "]}");
        EXPECT_TRUE(loaded) << loaded.error().errors.front();
        return loaded->environment;
    };
    EXPECT_THAT(of(""), ElementsAre(Pair("BINARY_DIR", "/usr/bin")));
    EXPECT_THAT(of("", "7.1.1"), ElementsAre(Pair("BINARY_DIR", "/var/dynamic/bin/7.1.1")));
    std::string const v4 = R"({"type":"IPList","source":"IPS","ipFamily":4})";
    std::string const v6 = R"({"type":"IPList","source":"IPS","ipFamily":6})";
    EXPECT_THAT(of(R"({"type":"Concatenate","values":[)" + v6 + "]}"),
                ElementsAre(Pair("BINARY_DIR", "/usr/bin"), Pair("IPS", "fd00::1")));
    // Used in two ways: from the whole list both can be made again.
    EXPECT_THAT(of(v4 + "," + v6), ElementsAre(Pair("BINARY_DIR", "/usr/bin"), Pair("IPS", "10.0.0.1, fd00::1")));
    EXPECT_THAT(of(v4 + R"(,{"type":"Environment","source":"IPS"})"),
                ElementsAre(Pair("BINARY_DIR", "/usr/bin"), Pair("IPS", "10.0.0.1, fd00::1")));
    // The name is ours.
    EXPECT_THAT(of(R"({"type":"Environment","source":"BINARY_DIR"})"), ElementsAre(Pair("BINARY_DIR", "/usr/bin")));
}

TEST(LauncherEnvironment, OfProgramsIsAboutAllOfThemAndTheFirstOnesBinary) {
    auto const loaded = load(R"({"programs":{
        "web":{"command":["/web"],"readiness":{"type":"http","url":{"type":"Environment","source":"URL"}}},
        "db":{"command":["/usr/sbin/db"],"environment":{"X":{"type":"Environment","source":"IP"}}}}})");
    ASSERT_TRUE(loaded) << loaded.error().errors.front();
    EXPECT_THAT(loaded->environment,
                ElementsAre(Pair("BINARY_DIR", "/"), Pair("IP", "10.0.0.7"), Pair("URL", "http://[::1]:8080/live")));
    EXPECT_THAT(load(R"({"programs":{}})")->environment, IsEmpty());
    EXPECT_THAT(load(R"({"programs":{"a":{"command":["web"]}}})")->environment, ElementsAre(Pair("BINARY_DIR", ".")));
}

TEST(Check, ShowsWhatTheAgentAsksOfEachProcess) {
    TemporaryFile const file(web(R"("count":2,"health":{"type":"http","url":"https://localhost:1/"},)"
                                 R"("readiness":{"type":"tcp","address":)" +
                                 numbered(R"("[::1]")", "1", "8000") + "}"));
    CheckOptions options;
    options.configuration_path = file.path();
    options.source = options_of_the_design();
    CheckResult const text = check(options, environment);
    EXPECT_EQ(text.errors, "");
    EXPECT_EQ(text.output,
              "# programs.web.command[0]: cannot execute /bin/web: No such file or directory\n"
              "# web\n"
              "/bin/web\n#   readiness: [::1]:8001\n#   health: https://localhost:1/\n"
              "/bin/web\n#   readiness: [::1]:8002\n#   health: https://localhost:1/\n");
    options.as_json = true;
    options.process_number = 2;
    EXPECT_THAT(check(options, environment).output,
                HasSubstr(R"({"program":"web","process":2,"command":["/bin/web"],"environment":[],)"
                          R"("readiness":{"type":"tcp","target":"[::1]:8002"},)"
                          R"("health":{"type":"http","target":"https://localhost:1/"}})"));
}

TEST(Check, ShowsSeveralChecksByTheirNames) {
    TemporaryFile const file(web(R"("health":[{"name":"port","type":"tcp","address":"[::1]:80"},)"
                                 R"({"name":"disk","command":["/bin/test"]},)"
                                 R"({"name":"page","type":"http","url":"http://[::1]/"}])"));
    CheckOptions options;
    options.configuration_path = file.path();
    EXPECT_EQ(check(options, environment).output,
              "# programs.web.command[0]: cannot execute /bin/web: No such file or directory\n"
              "# web\n/bin/web\n#   health port: [::1]:80\n#   health page: http://[::1]/\n");
    options.as_json = true;
    EXPECT_THAT(check(options, environment).output,
                HasSubstr(R"("environment":[],"health":[{"name":"port","type":"tcp","target":"[::1]:80"},)"
                          R"({"name":"page","type":"http","target":"http://[::1]/"}]})"));
}

// Documents that are made to be slow: what a load does is counted.

/// A document of many programs that differ only in their names.
std::string programs(int count, std::string const& keys) {
    std::string text = R"({"programs":{)";
    for (int i = 0; i < count; ++i)
        text += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + R"(":{"command":["/bin/web"],)" + keys + "}";
    return text + "}}";
}

TEST(SlowDocuments, EqualFiltersAreCompiledOnceForAllLoads) {
    std::string const text = programs(1000, R"("seccomp":{"profile":"none","deny":["mount","umount2","swapon"]})");
    auto const before = process::SeccompFilter::compilations();
    auto const first = load(text);
    ASSERT_TRUE(first) << first.error().errors.front();
    auto const second = load(text);
    EXPECT_TRUE(second);
    EXPECT_EQ(process::SeccompFilter::compilations(), before + 1);
}

TEST(SlowDocuments, UnknownNamesAreToldAHundredTimesInAll) {
    auto const loaded = load(programs(1000, R"("seccomp":{"allow":["mkdri","foo"]})"));
    ASSERT_FALSE(loaded);
    ASSERT_EQ(loaded.error().errors.size(), 100U);
    EXPECT_EQ(loaded.error().errors.front(),
              "programs.p0.seccomp.allow[0]: unknown system call \"mkdri\"; did you mean mkdir?");
    auto const longer = load(programs(
        2, R"("capabilities":{"bounding":[)" + [] {
            std::string names = "\"X\"";
            for (int i = 1; i < 20'000; ++i)
                names += ",\"X\"";
            return names;
        }() + "]}"));
    ASSERT_FALSE(longer);
    ASSERT_EQ(longer.error().errors.size(), 101U);
    EXPECT_EQ(longer.error().errors[99], "programs.p0.capabilities.bounding[99]: unknown capability \"X\"");
    EXPECT_EQ(longer.error().errors.back(), "and 19900 more");
}

/// A URL with so many numbers of its process.
NetworkProbe long_probe(std::size_t numbers, std::uint32_t processes, std::int64_t multiplier = 1) {
    std::vector<config::Argument> parts{{.value = "http://[::1]/"}};
    for (std::size_t i = 0; i < numbers; ++i)
        parts.push_back({.type = config::ArgumentType::process_number, .multiplier = multiplier});
    config::Argument const url{.type = config::ArgumentType::concatenate, .values = std::move(parts)};
    return {config::ProbeKind::http,
            config::substitute(url, json::Where{}, config::Variables({}, environment), processes).value()};
}

TEST(SlowDocuments, TargetsAreRenderedWithinABudget) {
    std::uint64_t budget = 1 << 20;
    NetworkProbe const probe = long_probe(800, 65535);
    EXPECT_EQ(target_fault(probe, true, budget), std::nullopt);
    EXPECT_LT(budget, probe.target.buffer_size());  // used up, and not more than that
    EXPECT_EQ(target_fault(probe, true, budget), std::nullopt);
    EXPECT_EQ(budget, 0U);
    // The first and the last process are looked at all the same.
    EXPECT_THAT(target_fault(long_probe(900, 65535), true, budget).value_or(""),
                testing::StartsWith("process 65535: \"http://[::1]/65535"));
}

TEST(SlowDocuments, OrdinaryTargetsAreAllChecked) {
    std::uint64_t budget = 16 << 20;
    std::vector<config::Argument> const parts{{.value = "127.0.0.1:"},
                                              {.type = config::ArgumentType::process_number, .multiplier = 2}};
    config::Argument const address{.type = config::ArgumentType::concatenate, .values = parts};
    NetworkProbe const probe{
        config::ProbeKind::tcp,
        config::substitute(address, json::Where{}, config::Variables({}, environment), 65535).value()};
    EXPECT_EQ(target_fault(probe, true, budget), "process 32768: \"65536\" is not a port from 1 to 65535");
}

}  // namespace
}  // namespace triton::launcher
