#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "config/process_configuration.h"
#include "tests/unit/config/problem_texts.h"

namespace triton::config {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;

/// The problems of a document, and its warnings behind them.
std::vector<std::string> findings(std::string_view text, Limits const& limits = {}) {
    Draft const draft = read(text, limits);
    std::vector<std::string> out = texts(draft.problems);
    for (std::string const& warning : texts(draft.warnings))
        out.push_back("warning: " + warning);
    return out;
}

std::string web(std::string const& keys) {
    return R"({"programs":{"web":{"command":["/bin/web"])" + (keys.empty() ? "" : "," + keys) + "}}}";
}

Program program_of(std::string const& keys) {
    auto const parsed = parse(web(keys));
    EXPECT_TRUE(parsed) << keys << ": " << parsed.error()[0].text();
    if (!parsed) return {};
    EXPECT_THAT(texts(parsed->warnings), IsEmpty()) << keys;
    EXPECT_EQ(parsed->configuration.programs.size(), 1U);
    return parsed->configuration.programs.at(0);
}

struct Found {
    std::string keys;
    std::vector<std::string> findings;
};

void PrintTo(Found const& row, std::ostream* out) { *out << row.keys.substr(0, 200); }

class ProgramKeys : public testing::TestWithParam<Found> {};

TEST_P(ProgramKeys, AreFoundToBe) { EXPECT_EQ(findings(web(GetParam().keys)), GetParam().findings); }

INSTANTIATE_TEST_SUITE_P(
    Command, ProgramKeys,
    testing::Values(
        Found{"", {}},
        Found{R"("env":{})", {R"(warning: programs.web: unknown key "env"; did you mean "environment"?)"}},
        Found{R"("depends_on":[])", {R"(warning: programs.web: unknown key "depends_on"; did you mean "requires"?)"}},
        Found{
            R"("capabilities":{"drop":["ALL"]})",
            {R"(warning: programs.web.capabilities: unknown key "drop"; "bounding" names those that stay: [] drops all, ["NET_BIND_SERVICE"] all others)"}},
        Found{R"("comand":["x"])", {R"(warning: programs.web: unknown key "comand"; did you mean "command"?)"}},
        Found{R"("arguments":["a",7])",
              {"programs.web.arguments[1]: expected a string or an object, for example {\"type\": \"Environment\", "
               "\"source\": \"NAME\"}, found number"}},
        Found{
            R"("arguments":[{"type":"Concatenate","values":["a",{"type":"Foo"}]}])",
            {R"(programs.web.arguments[0].values[1].type: unknown type "Foo" (known: Literal, Concatenate, Environment, ProcessNumber, IPList))"}},
        Found{R"("count":65536)", {"programs.web.count: 65536 is not within 0 to 65535"}},
        Found{R"("version":"1")", {"warning: programs.web.version: has no effect together with command"}},
        Found{R"("version":"a/b")",
              {"programs.web.version: must not contain a slash: it becomes part of a path",
               "warning: programs.web.version: has no effect together with command"}},
        Found{R"("environment":{"A":"1","":"2","B=C":"3","D":null,"E":{"type":"Environment"}})",
              {R"(programs.web.environment[""]: is not the name of a variable: it is empty or has a =)",
               R"(programs.web.environment["B=C"]: is not the name of a variable: it is empty or has a =)",
               "programs.web.environment.D: expected a string or an object, for example {\"type\": \"Environment\", "
               "\"source\": \"NAME\"}, found null",
               "programs.web.environment.E.source: required for type Environment"}},
        Found{R"("environment":["A"])",
              {"programs.web.environment: expected an object, for example {\"NAME\": \"value\"}, found array"}},
        Found{R"("environmentFrom":"clear")",
              {R"(programs.web.environmentFrom: "clear" is not one of inherit, clean; did you mean "clean"?)"}},
        Found{R"("environmentFrom":["PATH",1,"A=B"])",
              {"programs.web.environmentFrom[1]: expected a string, found number",
               R"(programs.web.environmentFrom[2]: "A=B" is not the name of a variable: it is empty or has a =)"}},
        Found{R"("environmentFrom":true)",
              {"programs.web.environmentFrom: expected a string or an array, found boolean"}},
        Found{R"("workingDirectory":"srv")", {R"(programs.web.workingDirectory: "srv" is not an absolute path)"}},
        Found{R"("rootDirectory":"")", {"programs.web.rootDirectory: must not be empty"}},
        Found{R"("user":"")", {"programs.web.user: must not be empty"}},
        Found{R"("user":-1)", {"programs.web.user: -1 is not within 0 to 4294967294"}},
        Found{R"("group":4294967295)", {"programs.web.group: 4294967295 is not within 0 to 4294967294"}},
        Found{R"("group":[])", {"programs.web.group: expected a name or a number, found array"}},
        Found{R"("supplementaryGroups":"adm")",
              {R"(programs.web.supplementaryGroups: expected an array, for example ["adm"], found string)"}},
        Found{R"("supplementaryGroups":["adm",1.5])",
              {"programs.web.supplementaryGroups[1]: expected an integer, found 1.5"}},
        Found{R"("umask":"0888")", {R"(programs.web.umask: "0888" is not an octal number from 0 to 777)"}},
        Found{R"("umask":"1000")", {R"(programs.web.umask: "1000" is not an octal number from 0 to 777)"}},
        Found{R"("umask":22)",
              {R"(programs.web.umask: expected an octal number as a string ("0027"), found number)"}}));

INSTANTIATE_TEST_SUITE_P(
    Lifecycle, ProgramKeys,
    testing::Values(
        Found{R"("oneShot":1)", {"programs.web.oneShot: expected a boolean, found number"}},
        Found{R"("oneShot":true,"restart":"on-failure")", {}},
        Found{R"("oneShot":true,"restart":"always")",
              {R"(programs.web.restart: "always" cannot be used together with oneShot)"}},
        Found{R"("schedule":{"every":"1h"},"restart":"always")",
              {R"(programs.web.restart: "always" cannot be used together with schedule)"}},
        Found{R"("oneShot":true,"schedule":{"every":"1h"})",
              {"programs.web.schedule: cannot be used together with oneShot"}},
        Found{
            R"("schedule":"1h")",
            {"programs.web.schedule: expected an object (keys: every, cron, timeZone, onStart, missed), found string"}},
        Found{R"("schedule":{})", {"programs.web.schedule: needs either every or cron"}},
        Found{R"("schedule":{"every":"1h","cron":"@daily"})", {"programs.web.schedule: needs either every or cron"}},
        Found{R"("schedule":{"every":"0s"})", {"programs.web.schedule.every: must be more than 0"}},
        Found{
            R"("schedule":{"cron":"* * * *"})",
            {R"(programs.web.schedule.cron: "* * * *": needs five fields: minute, hour, day of the month, month, day )"
             "of the week"}},
        Found{R"("schedule":{"cron":"0 0 * * mno"})",
              {R"(programs.web.schedule.cron: "0 0 * * mno": day of the week: mno is neither a number nor a name)"}},
        Found{
            R"("restart":"onfailure")",
            {R"(programs.web.restart: "onfailure" is not one of always, on-failure, never; did you mean "on-failure"?)"}},
        Found{R"("restart":"never","backoff":{})",
              {R"(warning: programs.web.backoff: has no effect when restart is "never")"}},
        Found{R"("backoff":{"initial":"10s","max":"5s","factor":0.5,"jitter":1.1,"resetAfter":60})",
              {"programs.web.backoff.factor: 0.5 is not within 1 to 1000",
               "programs.web.backoff.jitter: 1.1 is not within 0 to 1",
               R"(programs.web.backoff.resetAfter: expected a duration as a string ("10s"), found number)",
               "programs.web.backoff.initial: is longer than max"}},
        Found{R"("backoff":{"factor":"2"})", {"programs.web.backoff.factor: expected a number, found string"}},
        Found{
            R"("successCodes":[143,"TERM","SIGTERM",143,0,256,1.5,true,"NOPE"],"permanentFailureCodes":[78,143,"KILL"])",
            {R"(programs.web.successCodes[2]: SIGTERM is named twice)",
             R"(programs.web.successCodes[3]: exit code 143 is named twice)",
             R"(programs.web.successCodes[4]: 0 is not within 1 to 255)",
             R"(programs.web.successCodes[5]: 256 is not within 1 to 255)",
             R"(programs.web.successCodes[6]: expected an integer, found 1.5)",
             R"(programs.web.successCodes[7]: expected an exit code or a signal, found boolean)",
             R"(programs.web.successCodes[8]: "NOPE" is not a signal (for example TERM, 15, RTMIN+3))",
             R"(programs.web.permanentFailureCodes[1]: exit code 143 is also a success code)"}},
        Found{
            R"("groups":["web","web","a b",7])",
            {R"(programs.web.groups[1]: "web" is named twice)",
             R"(programs.web.groups[2]: a name is a letter or a digit and up to 63 more of them, or of ".", "_" and "-")",
             "programs.web.groups[3]: expected a string, found number"}},
        Found{R"("successCodes":143)",
              {"programs.web.successCodes: expected an array, for example [143], found number"}},
        Found{R"("startLimit":{})",
              {"programs.web.startLimit.count: required key is missing",
               "programs.web.startLimit.interval: required key is missing"}},
        Found{R"("startLimit":{"count":0,"interval":"0s","action":"stop","exitCode":0})",
              {"programs.web.startLimit.count: 0 is not within 1 to 1000",
               "programs.web.startLimit.interval: must be more than 0",
               R"(programs.web.startLimit.action: "stop" is not one of give-up, exit)",
               "programs.web.startLimit.exitCode: 0 is not within 1 to 255",
               R"(warning: programs.web.startLimit.exitCode: has no effect unless action is "exit")"}},
        Found{R"("startLimit":{"count":5,"interval":"1m","exitCode":3})",
              {R"(warning: programs.web.startLimit.exitCode: has no effect unless action is "exit")"}},
        Found{R"("stopSignal":"SIGFOO")",
              {R"(programs.web.stopSignal: "SIGFOO" is not a signal (for example TERM, 15, RTMIN+3))"}},
        Found{R"("stopSignal":"0")",
              {R"(programs.web.stopSignal: "0" is not a signal (for example TERM, 15, RTMIN+3))"}},
        Found{R"("stopSignal":15)", {"programs.web.stopSignal: expected a string, found number"}},
        Found{R"("stopTimeout":"10 s")",
              {R"(programs.web.stopTimeout: "10 s" is not a duration (for example 500ms, 10s, 1m30s))"}},
        Found{R"("stopTimeout":"8761h")", {R"(programs.web.stopTimeout: "8761h" is longer than a year)"}},
        Found{R"("stopTimeout":"1.5ms")", {R"(programs.web.stopTimeout: "1.5ms" is finer than a millisecond)"}},
        Found{R"("stopTimeout":"0s","drainDelay":"0s","stopScope":"tree")", {}},
        Found{R"("stopScope":"group")", {R"(programs.web.stopScope: "group" is not one of process, tree)"}},
        Found{R"("preStop":{"timeout":"0s"})",
              {"programs.web.preStop.command: required key is missing",
               "programs.web.preStop.timeout: must be more than 0"}},
        Found{R"("preStop":{"command":[]})", {"programs.web.preStop.command: must not be empty"}},
        Found{R"("preStop":["x"])", {"programs.web.preStop: expected an object (keys: command, timeout), found array"}},
        Found{R"("onFailure":{"comand":["x"]})",
              {"programs.web.onFailure.command: required key is missing",
               R"(warning: programs.web.onFailure: unknown key "comand"; did you mean "command"?)"}},
        Found{
            R"("reloadSignal":"USR1")",
            {R"(warning: programs.web.reloadSignal: has no effect unless onConfigurationChange or files.action is "signal")"}},
        Found{R"("reloadSignal":"USR1","onConfigurationChange":"signal")", {}},
        Found{R"("onConfigurationChange":"reload")",
              {R"(programs.web.onConfigurationChange: "reload" is not one of keep, restart, signal)"}}));

INSTANTIATE_TEST_SUITE_P(
    NetworkProbes, ProgramKeys,
    testing::Values(
        Found{R"("readiness":{"type":"tcp","address":"127.0.0.1:80","interval":"5s","timeout":"2s"})", {}},
        Found{R"("readiness":{"type":"http","url":"https://localhost/ready"},"startTimeout":"1m")", {}},
        Found{R"("readiness":{"type":"tcp","address":{"value":"[::1]:80"}},"health":{"type":"http","url":null})",
              {"programs.web.health.url: required for type http"}},
        Found{R"("health":{"type":null,"command":["x"]})", {}},
        Found{R"("readiness":{"type":"tcp","url":"http://127.0.0.1/"})",
              {"programs.web.readiness.address: required for type tcp",
               "warning: programs.web.readiness.url: has no effect for type tcp"}},
        Found{R"("readiness":{"type":"http","address":"127.0.0.1:80","fd":3,"command":["x"],"notifyAccess":"all"})",
              {"programs.web.readiness.url: required for type http",
               "warning: programs.web.readiness.fd: has no effect for type http",
               "warning: programs.web.readiness.command: has no effect for type http",
               "warning: programs.web.readiness.address: has no effect for type http",
               "warning: programs.web.readiness.notifyAccess: has no effect for type http"}},
        Found{R"("health":{"address":"127.0.0.1:80"})",
              {"programs.web.health.command: required for type exec",
               "warning: programs.web.health.address: has no effect for type exec"}},
        Found{R"("readiness":{"type":"tcp","address":"localhost"})",
              {R"(programs.web.readiness.address: "localhost" has no port)"}},
        Found{R"("readiness":{"type":"tcp","address":{"type":"Literal","value":"db:80"}})",
              {R"(programs.web.readiness.address: "db" is neither an IP address nor localhost)"}},
        Found{
            R"("readiness":{"type":"tcp","address":{"type":"Foo","value":"db:80"}})",
            {R"(programs.web.readiness.address.type: unknown type "Foo" (known: Literal, Concatenate, Environment, ProcessNumber, IPList))"}},
        Found{R"("readiness":{"type":"tcp","address":["127.0.0.1:80"]})",
              {"programs.web.readiness.address: expected a string or an object, for example {\"type\": "
               "\"Environment\", \"source\": \"NAME\"}, found array"}},
        Found{R"("health":{"type":"http","url":"ftp://[::1]"})",
              {R"(programs.web.health.url: "ftp://[::1]" begins with neither http:// nor https://)"}},
        Found{R"("pidFile":"/run/web.pid","startTimeout":"5s")", {}},
        Found{R"("pidFile":{"type":"Concatenate","values":["/run/",{"type":"ProcessNumber"}]},"count":2)", {}},
        Found{R"("pidFile":"web.pid","count":2,"oneShot":true)",
              {"programs.web.pidFile: cannot be used together with oneShot or schedule",
               "programs.web.pidFile: must be an absolute path",
               "programs.web.pidFile: has to depend on the number of the process, of which there are several"}},
        Found{R"("output":{},"readiness":{"type":"log","pattern":"up on :[0-9]+","stream":"stderr"})", {}},
        Found{R"("output":{"file":"/log"},"readiness":{"type":"log","pattern":{"value":"up"}})", {}},
        Found{R"("readiness":{"type":"log","pattern":"up"})",
              {R"(programs.web.readiness.type: needs captured output, and output is "inherit")"}},
        Found{R"("output":"null","readiness":{"type":"log","pattern":"up"})",
              {R"(programs.web.readiness.type: needs captured output, and output is "null")"}},
        Found{R"("output":{},"readiness":{"type":"log"})", {"programs.web.readiness.pattern: required for type log"}},
        Found{R"("output":{},"readiness":{"type":"log","pattern":"","interval":"1s"})",
              {"programs.web.readiness.pattern: must not be empty",
               "warning: programs.web.readiness.interval: has no effect for type log"}},
        Found{R"("output":{},"readiness":{"type":"log","pattern":"up","stream":"both"})",
              {R"(programs.web.readiness.stream: "both" is neither stdout nor stderr)"}},
        Found{R"("output":{"file":"/log"},"readiness":{"type":"log","pattern":"up","stream":"stdout"})",
              {"programs.web.readiness.stream: cannot be told: output.file in format raw has both streams in one"}},
        Found{R"("output":{"stderr":"null"},"readiness":{"type":"log","pattern":"up","stream":"stderr"})",
              {"programs.web.readiness.stream: stderr is not captured: output.stderr leads it elsewhere"}},
        Found{R"("output":{},"readiness":{"type":"log","pattern":")" + std::string(1025, 'x') + R"("})",
              {R"(programs.web.readiness.pattern: ")" + std::string(128, 'x') + R"(..." is longer than 1024 bytes)"}},
        Found{R"("health":{"type":"log","command":["x"]})",
              {R"(programs.web.health.type: "log" is not one of exec, tcp, http, grpc)"}},
        // Known only with its variables.
        Found{R"("health":{"type":"tcp","address":{"type":"Environment","source":"HERE"}})", {}},
        Found{R"("watchdog":"1s","readiness":{"type":"tcp","address":"127.0.0.1:80"})",
              {R"(programs.web.watchdog: needs readiness of type "notify")"}}));

INSTANTIATE_TEST_SUITE_P(
    Wellbeing, ProgramKeys,
    testing::Values(
        Found{R"("readiness":{})", {"programs.web.readiness.type: required key is missing"}},
        Found{
            R"("readiness":{"type":"htp","url":"http://[::1]/","command":["x"]})",
            {R"(programs.web.readiness.type: "htp" is not one of notify, fd, exec, tcp, http, grpc, log; did you mean "http"?)"}},
        Found{R"("readiness":{"type":"fd","fd":2})", {"programs.web.readiness.fd: 2 is not within 3 to 65535"}},
        Found{R"("readiness":{"type":"exec"})", {"programs.web.readiness.command: required for type exec"}},
        Found{R"("readiness":{"type":"notify","fd":3,"command":["x"],"interval":"1s","timeout":"1s"})",
              {"warning: programs.web.readiness.fd: has no effect for type notify",
               "warning: programs.web.readiness.command: has no effect for type notify",
               "warning: programs.web.readiness.interval: has no effect for type notify",
               "warning: programs.web.readiness.timeout: has no effect for type notify"}},
        Found{R"("readiness":{"type":"fd","notifyAccess":"all"})",
              {"warning: programs.web.readiness.notifyAccess: has no effect for type fd"}},
        Found{R"("readiness":{"type":"fd"},"sockets":[{"name":"a","listen":"tcp::80"}])",
              {"programs.web.readiness.fd: 3 is taken: the sockets get 3"}},
        Found{
            R"("readiness":{"type":"fd","fd":4},"sockets":[{"name":"a","listen":"tcp::80"},{"name":"b","listen":"tcp::81"}])",
            {"programs.web.readiness.fd: 4 is taken: the sockets get 3 to 4"}},
        Found{R"("readiness":{"type":"fd","fd":4},"sockets":[{"name":"a","listen":"tcp::80"}])", {}},
        Found{R"("startTimeout":"30s")", {"warning: programs.web.startTimeout: has no effect without readiness"}},
        Found{R"("startTimeout":"0s","readiness":{"type":"notify"})",
              {"programs.web.startTimeout: must be more than 0"}},
        Found{R"("watchdog":"30s")", {R"(programs.web.watchdog: needs readiness of type "notify")"}},
        Found{R"("watchdog":"30s","readiness":{"type":"fd"})",
              {R"(programs.web.watchdog: needs readiness of type "notify")"}},
        Found{R"("watchdog":"30s","readiness":{"type":"notify"})", {}},
        Found{R"("health":{"interval":"1s"})", {"programs.web.health.command: required for type exec"}},
        Found{R"("health":{"type":"exe","timeout":"1s"})",
              {R"(programs.web.health.type: "exe" is not one of exec, tcp, http, grpc; did you mean "exec"?)"}},
        Found{
            R"("health":{"command":["x"],"interval":"0s","timeout":"-1s","retries":0,"startPeriod":"x","action":"kill"})",
            {"programs.web.health.interval: must be more than 0",
             R"(programs.web.health.timeout: "-1s" is not a duration (for example 500ms, 10s, 1m30s))",
             "programs.web.health.retries: 0 is not within 1 to 65535",
             R"(programs.web.health.startPeriod: "x" is not a duration (for example 500ms, 10s, 1m30s))",
             R"(programs.web.health.action: "kill" is not one of restart, report, exit)"}}));

INSTANTIATE_TEST_SUITE_P(
    Resources, ProgramKeys,
    testing::Values(
        Found{R"("limits":{"nofiles":1})",
              {R"(warning: programs.web.limits: unknown key "nofiles"; did you mean "nofile"?)"}},
        Found{R"("limits":{"foo":1})",
              {"warning: programs.web.limits: unknown key \"foo\"; the keys are nofile, nproc, core, as, cpu, data, "
               "fsize, "
               "memlock, msgqueue, nice, rss, rtprio, rttime, sigpending, stack, locks"}},
        Found{R"("memory":"1Gi")", {R"(warning: programs.web: unknown key "memory"; did you mean "cgroup"?)"}},
        Found{R"("listen":[":80"])", {R"(warning: programs.web: unknown key "listen"; did you mean "sockets"?)"}},
        Found{R"("limits":{"nofile":-1,"core":"none","as":true,"cpu":1.5})",
              {R"(programs.web.limits.nofile: -1 is not a size (for example 4096, "64Mi", "1.5G"))",
               R"(programs.web.limits.core: "none" is not a size (for example 4096, "64Mi", "1.5G"))",
               R"(programs.web.limits.as: expected a size (bytes, or "64Mi"), found boolean)",
               R"(programs.web.limits.cpu: 1.5 is not a size (for example 4096, "64Mi", "1.5G"))"}},
        Found{R"("limits":{"nofile":{"soft":1024}})", {"programs.web.limits.nofile.hard: required key is missing"}},
        Found{R"("limits":{"nofile":{"soft":"unlimited","hard":1024}})",
              {"programs.web.limits.nofile.soft: is more than hard"}},
        Found{R"("nice":20)", {"programs.web.nice: 20 is not within -20 to 19"}},
        Found{R"("oomScoreAdj":-1001)", {"programs.web.oomScoreAdj: -1001 is not within -1000 to 1000"}},
        Found{R"("cpuAffinity":"0-")", {R"(programs.web.cpuAffinity: "0-" is not a list of CPUs (for example 0-3,6))"}},
        Found{R"("cpuAffinity":3)", {"programs.web.cpuAffinity: expected a string, found number"}},
        Found{
            R"("cgroup":{"memoryMax":"lots","cpuMax":"150","cpuWeight":0,"pidsMax":"many"})",
            {R"(programs.web.cgroup.memoryMax: "lots" is not a size (for example 4096, "64Mi", "1.5G"))",
             R"(programs.web.cgroup.cpuMax: "150" is not a number of CPUs (for example 1.5, "150%", "max"; at least 1%))",
             "programs.web.cgroup.cpuWeight: 0 is not within 1 to 10000",
             R"(programs.web.cgroup.pidsMax: "many" is neither an integer nor "max")"}},
        Found{R"("cgroup":{"cpuMax":0.001,"pidsMax":0})",
              {"programs.web.cgroup.cpuMax: 0.001 is not within 0.01 to 100000",
               "programs.web.cgroup.pidsMax: 0 is not within 1 to 4194304"}},
        Found{
            R"("cgroup":{"cpuMax":"0.5%"})",
            {R"(programs.web.cgroup.cpuMax: "0.5%" is not a number of CPUs (for example 1.5, "150%", "max"; at least )"
             "1%)"}},
        Found{R"("cgroup":{"cpuMax":[1]})",
              {R"(programs.web.cgroup.cpuMax: expected a number of CPUs (1.5, "150%" or "max"), found array)"}}));

INSTANTIATE_TEST_SUITE_P(
    Sandbox, ProgramKeys,
    testing::Values(
        Found{R"("capabilities":{"bounding":["NET_ADMIN",""],"ambient":"x"})",
              {"programs.web.capabilities.bounding[1]: must not be empty",
               R"(programs.web.capabilities.ambient: expected an array, for example ["x"], found string)"}},
        Found{R"("seccomp":{"profile":"docker","action":"EPERM","allow":["@clock",1]})",
              {R"(programs.web.seccomp.profile: "docker" is not one of default, strict, none)",
               "programs.web.seccomp.allow[1]: expected a string, found number",
               R"(programs.web.seccomp.action: "EPERM" is not one of errno, kill, log)"}},
        Found{R"("seccomp":{"allow":["mount"],"deny":["ptrace","mount"]})",
              {"programs.web.seccomp.deny[1]: mount is also in allow"}},
        Found{R"("noNewPrivileges":false,"seccomp":{})",
              {"programs.web.noNewPrivileges: cannot be false together with seccomp"}},
        Found{R"("noNewPrivileges":false,"landlock":{})",
              {"programs.web.noNewPrivileges: cannot be false together with landlock"}},
        Found{R"("noNewPrivileges":false,"seccomp":{"profile":"none"})", {}},
        Found{R"("landlock":{"readOnly":["/usr","lib"],"readWrite":7})",
              {R"(programs.web.landlock.readOnly[1]: "lib" is not an absolute path)",
               "programs.web.landlock.readWrite: expected an array, for example [7], found number"}},
        Found{R"("parentDeathSignal":"none")",
              {R"(programs.web.parentDeathSignal: "none" is not a signal (for example TERM, 15, RTMIN+3))"}}));

INSTANTIATE_TEST_SUITE_P(
    Descriptors, ProgramKeys,
    testing::Values(
        Found{R"("output":"nul")", {R"(programs.web.output: "nul" is not one of inherit, null; did you mean "null"?)"}},
        Found{R"("output":"/log")", {R"(programs.web.output: a file is written as {"file": "/log"})"}},
        Found{R"("restart":true)", {"programs.web.restart: expected one of always, on-failure, never, found boolean"}},
        Found{R"("output":7)", {"programs.web.output: expected a string or an object, found number"}},
        Found{R"("output":{"maxSize":"1Mi","maxFiles":2,"mode":"0600"})",
              {"warning: programs.web.output.maxSize: has no effect without file",
               "warning: programs.web.output.maxFiles: has no effect without file",
               "warning: programs.web.output.mode: has no effect without file"}},
        Found{R"("output":{"file":"/log","mode":"1777"})",
              {R"(programs.web.output.mode: "1777" is not an octal number from 0 to 777)"}},
        Found{R"("output":{"format":"json","timestamp":"rfc3339"})",
              {"warning: programs.web.output.timestamp: has no effect with format json, which has the time"}},
        Found{R"("output":{"format":"json","timestamp":"none"})", {}},
        Found{R"("output":{"timestamp":"utc"})",
              {R"(programs.web.output.timestamp: "utc" is not one of none, rfc3339)"}},
        Found{R"("output":{"stderr":"nul"})",
              {R"(programs.web.output.stderr: "nul" is not one of inherit, null; did you mean "null"?)"}},
        Found{R"("output":{"stderr":7})", {"programs.web.output.stderr: expected a string or an object, found number"}},
        Found{R"("output":{"stderr":{"stderr":"null"}})",
              {"programs.web.output.stderr.stderr: is not a key of stderr"}},
        Found{R"("output":{"file":"/f","stderr":{"file":"/f","maxFiles":1}})",
              {"programs.web.output.stderr: /f is the file of the standard output, which gets both streams without "
               "stderr"}},
        Found{R"("output":{"to":"logger","file":"/f","stderr":{"file":"/g"}})",
              {"programs.web.output.file: cannot be used together with to",
               R"(programs.web.output.stderr: can only be "inherit" or "null" together with to)",
               R"(programs.web.output.to: unknown program "logger")"}},
        Found{R"("output":{"to":"web","stderr":"null"})", {"programs.web.output.to: names the program itself"}},
        Found{R"("output":{"syslog":{}})", {}},
        Found{R"("output":{"syslog":{},"stderr":{"syslog":{"severity":"crit"}}})", {}},
        Found{R"("output":{"syslog":{},"file":"/f","format":"raw","whenFull":"block"})",
              {"programs.web.output.file: cannot be used together with syslog",
               "programs.web.output.format: cannot be used together with syslog",
               "programs.web.output.whenFull: cannot be used together with syslog"}},
        Found{R"("output":{"syslog":"/dev/log"})",
              {"programs.web.output.syslog: expected an object (keys: address, facility, severity, stderrSeverity, "
               "name, format), found string"}},
        Found{
            R"("output":{"syslog":{"address":"udp:log:514","facility":"local8","severity":"loud","name":"a b"}})",
            {R"(programs.web.output.syslog.address: "udp:log:514": "log" is neither an IP address nor localhost)",
             R"(programs.web.output.syslog.facility: "local8" is not one of kern, user, mail, daemon, auth, syslog, lpr, news, )"
             R"(uucp, cron, authpriv, ftp, ntp, audit, alert, clock, local0, local1, local2, local3, local4, local5, local6, )"
             R"(local7; did you mean "local0"?)",
             R"(programs.web.output.syslog.severity: "loud" is not one of emerg, alert, crit, err, warning, notice, info, debug)",
             R"(programs.web.output.syslog.name: "a b" is not a name of 1 to 48 printable ASCII characters)"}},
        Found{
            R"("output":{"syslog":{"address":"unix:log"},"stderr":{"syslog":{"address":"tpc:[::1]:5"}}})",
            {R"(programs.web.output.syslog.address: "unix:log": log is not an absolute path)",
             R"(programs.web.output.stderr.syslog.address: "tpc:[::1]:5": begins with none of unix:, udp:, tcp:, tls:; )"
             R"(did you mean tcp:?)"}},
        Found{R"("output":{"syslog":{"address":"tls:10.0.0.1"}})",
              {R"(programs.web.output.syslog.address: "tls:10.0.0.1": "10.0.0.1" has no port)"}},
        Found{R"("output":{"stderr":{"syslog":{"stderrSeverity":"info"}}})",
              {"programs.web.output.stderr.syslog.stderrSeverity: is not a key of stderr"}},
        Found{R"("output":{"to":"web","syslog":{}})",
              {"programs.web.output.syslog: cannot be used together with to",
               "programs.web.output.to: names the program itself"}},
        Found{R"("output":{"file":{"type":"ProcessNumber"},"stderr":{"file":{"type":"ProcessNumber"}}})",
              {"programs.web.output.stderr: its file is the file of the standard output, which gets both streams "
               "without stderr"}},
        Found{R"("output":{"file":["/f"]},"stdin":{"file":7})",
              {"programs.web.stdin.file: expected a string or an object, found number",
               "programs.web.output.file: expected a string or an object, found array"}},
        Found{R"("output":{"stderr":{"to":"web"}})", {"programs.web.output.stderr.to: is not a key of stderr"}},
        Found{R"("output":{"file":"/f","stderr":{"maxSize":"1Mi","file":null}})",
              {"warning: programs.web.output.stderr.maxSize: has no effect without file"}},
        Found{R"("output":{"file":"log","format":"text","maxSize":0,"maxFiles":-1,"whenFull":"lose"})",
              {R"(programs.web.output.file: "log" is not an absolute path)",
               R"(programs.web.output.format: "text" is not one of raw, prefix, json)",
               "programs.web.output.maxSize: must be more than 0",
               "programs.web.output.maxFiles: -1 is not within 0 to 1000",
               R"(programs.web.output.whenFull: "lose" is not one of block, drop)"}},
        Found{R"("sockets":[{}])",
              {"programs.web.sockets[0].name: required key is missing",
               "programs.web.sockets[0].listen: required key is missing"}},
        Found{R"("sockets":["tcp::80"])",
              {"programs.web.sockets[0]: expected an object (keys: name, listen, mode, user, group, backlog), found "
               "string"}},
        Found{R"("sockets":[{"name":"a:b","listen":"tcp:host:80"}])",
              {R"(programs.web.sockets[0].name: "a:b": a name is a letter or a digit and up to 63 more of them, or of )"
               R"re(".", "_" and "-")re",
               R"(programs.web.sockets[0].listen: "tcp:host:80": host is not an IP address)"}},
        Found{R"("sockets":[{"name":"a","listen":"tcp::80"},{"name":"a","listen":"udp::80"}])",
              {R"(programs.web.sockets[1].name: "a" is the name of another socket)"}},
        Found{R"("sockets":[{"name":"a","listen":"tcp::80"},{"name":"b","listen":"tcp::80"}])",
              {"programs.web.sockets[1]: tcp::80 is also the address of programs.web.sockets[0]"}},
        Found{R"("sockets":[{"name":"a","listen":"udp::80","mode":"0600","user":"u","group":"g","backlog":9}])",
              {"warning: programs.web.sockets[0].mode: has no effect without a path",
               "warning: programs.web.sockets[0].user: has no effect without a path",
               "warning: programs.web.sockets[0].group: has no effect without a path",
               "warning: programs.web.sockets[0].backlog: has an effect only for tcp and unix"}},
        Found{R"("sockets":[{"name":"a","listen":"unix:/s","mode":"8","backlog":0}])",
              {R"(programs.web.sockets[0].mode: "8" is not an octal number from 0 to 7777)",
               "programs.web.sockets[0].backlog: 0 is not within 1 to 65535"}}));

TEST(ParsePrograms, Defaults) {
    Program const program = program_of("");
    Program expected;
    expected.name = "web";
    expected.command = {{.value = "/bin/web"}};
    EXPECT_TRUE(program == expected);
    EXPECT_TRUE(program_of(R"("count":null,"readiness":null,"output":null,"environmentFrom":null,"sockets":null)") ==
                expected);
    EXPECT_EQ(program_of(R"("oneShot":true)").restart, RestartWhen::never);
    EXPECT_EQ(program_of(R"("schedule":{"cron":"@daily"})").restart, RestartWhen::never);
    EXPECT_EQ(program_of(R"("schedule":{"every":"1h"},"restart":"on-failure")").restart, RestartWhen::on_failure);
    EXPECT_TRUE(program_of(R"("seccomp":{})").no_new_privileges);
    EXPECT_TRUE(program_of(R"("landlock":{})").no_new_privileges);
    EXPECT_FALSE(program_of(R"("seccomp":{"profile":"none"})").no_new_privileges);
}

TEST(ParsePrograms, ReadsEverything) {
    Program const program = program_of(R"(
        "arguments": ["-n", {"type": "ProcessNumber"}, {"type": "Concatenate", "values": ["a", {"value": "b"}]}],
        "count": 3, "environment": {"B": "2", "A": {"type": "Environment", "source": "X"}},
        "environmentFrom": ["PATH", "HOME"], "workingDirectory": "/srv", "rootDirectory": "/jail",
        "user": "www", "group": 33, "supplementaryGroups": ["adm", 7], "umask": "0027",
        "restart": "on-failure", "critical": true,
        "backoff": {"initial": "500ms", "factor": 1.5, "max": "1m", "jitter": 0, "resetAfter": "2m", "always": true},
        "startLimit": {"count": 5, "interval": "1m", "action": "exit", "exitCode": 7},
        "stopSignal": "SIGQUIT", "stopTimeout": "0s", "stopScope": "tree", "drainDelay": "5s",
        "preStop": {"command": ["/bin/drain", "-x"], "timeout": "3s"},
        "onConfigurationChange": "signal", "reloadSignal": "USR1", "onFailure": {"command": ["/bin/tell"]},
        "readiness": {"type": "notify", "notifyAccess": "all"}, "startTimeout": "30s", "watchdog": "15s",
        "health": {"command": ["/bin/look"], "interval": "2s", "timeout": "1s", "retries": 5, "startPeriod": "3s",
                   "action": "exit"},
        "limits": {"core": "unlimited", "nofile": {"soft": 1024, "hard": "64Ki"}, "stack": "8Mi"},
        "nice": -5, "oomScoreAdj": 500, "cpuAffinity": "3,0-1",
        "cgroup": {"memoryMax": "1Gi", "memoryHigh": "max", "memoryMin": 4096, "swapMax": 0, "cpuMax": "150%",
                   "cpuWeight": 50, "pidsMax": 100},
        "capabilities": {"bounding": [], "ambient": ["CAP_NET_BIND_SERVICE"], "inheritable": ["chown"]},
        "seccomp": {"profile": "strict", "allow": ["@clock"], "deny": ["ptrace"], "action": "kill"},
        "landlock": {"readOnly": ["/usr"], "readWrite": ["/tmp"], "execute": ["/bin"], "signals": "own",
                     "abstractSockets": "own"},
        "parentDeathSignal": "KILL",
        "output": {"file": "/var/log/web", "format": "json", "maxSize": "1Mi", "maxFiles": 2, "mode": "0640",
                   "whenFull": "drop"},
        "sockets": [{"name": "http", "listen": "tcp:[::]:80", "backlog": 128},
                    {"name": "ctl", "listen": "unix:/run/ctl", "mode": "0600", "user": "www", "group": 0}])");
    Program expected;
    expected.name = "web";
    expected.command = {{.value = "/bin/web"}};
    expected.arguments = {{.value = "-n"},
                          {.type = ArgumentType::process_number},
                          {.type = ArgumentType::concatenate, .values = {{.value = "a"}, {.value = "b"}}}};
    expected.count = 3;
    expected.environment = {{"B", {.value = "2"}}, {"A", {.type = ArgumentType::environment, .source = "X"}}};
    expected.environment_from = EnvironmentFrom::listed;
    expected.environment_names = {"PATH", "HOME"};
    expected.working_directory = "/srv";
    expected.root_directory = "/jail";
    expected.user = "www";
    expected.group = 33U;
    expected.supplementary_groups = {"adm", 7U};
    expected.umask = 027;
    expected.restart = RestartWhen::on_failure;
    expected.critical = true;
    expected.backoff = {500ms, 1.5, 1min, 0.0, 2min, true};
    expected.start_limit = {5, 1min, 7};
    expected.stop_signal = SIGQUIT;
    expected.stop_timeout = 0s;
    expected.stop_scope = StopScope::tree;
    expected.drain_delay = 5s;
    expected.pre_stop = {{{.value = "/bin/drain"}, {.value = "-x"}}, 3s};
    expected.on_change = OnChange::signal;
    expected.reload_signal = SIGUSR1;
    expected.on_failure = {{{.value = "/bin/tell"}}, 10s};
    expected.readiness = {.type = ReadinessType::notify, .notify_access = NotifyAccess::all};
    expected.start_timeout = 30s;
    expected.watchdog = 15s;
    expected.health = {{.command = {{.value = "/bin/look"}},
                        .interval = 2s,
                        .timeout = 1s,
                        .retries = 5,
                        .start_period = 3s,
                        .action = HealthAction::exit}};
    expected.limits = {{RLIMIT_NOFILE, 1024, 65536},
                       {RLIMIT_CORE, process::unlimited, process::unlimited},
                       {RLIMIT_STACK, 8 << 20, 8 << 20}};
    expected.nice = -5;
    expected.oom_score_adj = 500;
    expected.cpu_affinity = {0, 1, 3};
    expected.cgroup = {1 << 30, process::unlimited, 4096, 0, 1500, 50, 100};
    expected.capabilities = {{{}}, {{"CAP_NET_BIND_SERVICE"}}, {{"chown"}}};
    expected.capabilities->bounding = std::vector<std::string>{};
    expected.no_new_privileges = true;
    expected.seccomp = {process::SeccompProfile::strict, {"@clock"}, {"ptrace"}, process::SeccompAction::kill};
    expected.landlock = {{"/usr"}, {"/tmp"}, {"/bin"}, process::LandlockReach::own, process::LandlockReach::own};
    expected.parent_death_signal = SIGKILL;
    expected.output = {OutputKind::captured, "/var/log/web", OutputFormat::json, 1 << 20, 2, 0640, WhenFull::drop};
    expected.sockets = {{.name = "http", .address = {SocketKind::tcp, "::", 80, ""}, .backlog = 128},
                        {.name = "ctl",
                         .address = {SocketKind::unix_stream, "", 0, "/run/ctl"},
                         .mode = 0600,
                         .user = "www",
                         .group = 0U}};
    EXPECT_TRUE(program == expected);
}

TEST(ParsePrograms, ValuesOfSeveralForms) {
    EXPECT_EQ(program_of(R"("environmentFrom":"clean")").environment_from, EnvironmentFrom::clean);
    EXPECT_EQ(program_of(R"("output":"null")").output.kind, OutputKind::null);
    EXPECT_EQ(program_of(R"("output":"inherit")").output, Output{});
    EXPECT_EQ(program_of(R"("output":{})").output, (Output{.kind = OutputKind::captured}));
    EXPECT_EQ(program_of(R"("output":{"file":"/f"})").output,
              (Output{.kind = OutputKind::captured, .file = "/f", .format = OutputFormat::raw}));
    EXPECT_EQ(program_of(R"("output":{"timestamp":"rfc3339"})").output,
              (Output{.kind = OutputKind::captured, .timestamp = OutputTimestamp::rfc3339}));
    EXPECT_EQ(program_of(R"("output":{"file":"/f","format":"prefix"})").output.format, OutputFormat::prefix);
    EXPECT_THAT(program_of(R"("output":{"stderr":null})").output.error, testing::IsEmpty());
    EXPECT_THAT(program_of(R"("output":{"file":"/f","stderr":"null"})").output.error,
                testing::ElementsAre(Output{.kind = OutputKind::null}));
    EXPECT_THAT(program_of(R"("output":{"stderr":"inherit"})").output.error, testing::ElementsAre(Output{}));
    EXPECT_THAT(program_of(R"("output":{"stderr":{"file":"/g","maxFiles":1}})").output.error,
                testing::ElementsAre(
                    Output{.kind = OutputKind::captured, .file = "/g", .format = OutputFormat::raw, .max_files = 1}));
    EXPECT_EQ(program_of(R"("schedule":{"every":"1h"})").schedule, Schedule(Milliseconds(1h)));
    EXPECT_EQ(program_of(R"("schedule":{"cron":"@hourly"})").schedule, Schedule(*parse_cron("0 * * * *")));
    std::map<std::string, std::uint64_t> const cpus{
        {"1", 1000}, {"0.01", 10}, {"2.5", 2500}, {"\"max\"", process::unlimited}, {"\"1%\"", 10}, {"\"12.5%\"", 125}};
    for (auto const& [text, thousandths] : cpus) {
        EXPECT_EQ(program_of(R"("cgroup":{"cpuMax":)" + text + "}").cgroup->cpu_max, thousandths) << text;
    }
    EXPECT_EQ(program_of(R"("cgroup":{"pidsMax":"max"})").cgroup->pids_max, process::unlimited);
    EXPECT_EQ(program_of(R"("startLimit":{"count":1,"interval":"1s"})").start_limit, (StartLimit{1, 1s, std::nullopt}));
    EXPECT_EQ(program_of(R"("startLimit":{"count":1,"interval":"1s","action":"exit"})").start_limit,
              (StartLimit{1, 1s, 1}));
    EXPECT_EQ(program_of(R"("readiness":{"type":"exec","command":["/bin/true"]})").readiness,
              (Readiness{.type = ReadinessType::exec, .command = {{.value = "/bin/true"}}}));
    EXPECT_EQ(program_of(R"("readiness":{"type":"tcp","address":"[::1]:80"})").readiness,
              (Readiness{.type = ReadinessType::tcp, .address = Argument{.value = "[::1]:80"}}));
    EXPECT_EQ(program_of(R"("health":{"type":"http","url":{"type":"Environment","source":"URL"}})").health,
              (std::vector{Health{.type = HealthType::http,
                                  .url = Argument{.type = ArgumentType::environment, .source = "URL"}}}));
    Program const both = program_of(
        R"("health":[{"name":"alive","command":["a"]},{"name":"ready","type":"grpc","address":"[::1]:1","service":"s",)"
        R"("action":"report"}])");
    ASSERT_EQ(both.health.size(), 2);
    EXPECT_EQ(both.health[0], (Health{.name = "alive", .command = {{.value = "a"}}}));
    EXPECT_EQ(both.health[1], (Health{.name = "ready",
                                      .type = HealthType::grpc,
                                      .address = Argument{.value = "[::1]:1"},
                                      .service = "s",
                                      .action = HealthAction::report}));
    Program const asked = program_of(
        R"("readiness":{"type":"http","url":"http://[::1]/","headers":{"Host":"x","X-Token":{"type":"Environment",)"
        R"("source":"T"}},"status":[204,"300-399"]})");
    EXPECT_EQ(asked.readiness->headers,
              (Headers{{"Host", {.value = "x"}}, {"X-Token", {.type = ArgumentType::environment, .source = "T"}}}));
    EXPECT_EQ(asked.readiness->status, (std::vector<StatusRange>{{204, 204}, {300, 399}}));
    EXPECT_EQ(program_of(R"("readiness":{"type":"http","url":"http://[::1]/","status":"200-299"})").readiness->status,
              (std::vector<StatusRange>{{200, 299}}));
}

TEST(ParsePrograms, Checks) {
    auto const health = [](std::string_view value) { return findings(web(R"("health":)" + std::string(value))); };
    using Texts = std::vector<std::string>;
    EXPECT_EQ(health("[]"), (Texts{"programs.web.health: must not be empty"}));
    EXPECT_EQ(health("7"), (Texts{"programs.web.health: expected an object or an array, found number"}));
    EXPECT_EQ(health(R"([{"command":["x"]},{"name":"a","command":["x"]},{"name":"a","command":["x"]}])"),
              (Texts{"programs.web.health[0].name: required for one of several checks",
                     R"(programs.web.health[2].name: "a" is named twice)"}));
    std::string nine = "[";
    for (int check = 0; check < 9; ++check)
        nine += (check > 0 ? "," : "") + std::string(R"({"name":"c)") + std::to_string(check) + R"(","command":["x"]})";
    EXPECT_EQ(health(nine + "]"), (Texts{"programs.web.health: more than 8 checks"}));
    EXPECT_EQ(health(R"({"name":"a b","command":["x"]})"),
              (Texts{"programs.web.health.name: a name is a letter or a digit and up to 63 more of them, or of \".\", "
                     "\"_\" and \"-\""}));
}

TEST(ParsePrograms, WhatAProbeAsksForAndTakes) {
    auto const probe = [](std::string_view more) {
        return findings(web(R"("readiness":{"type":"http","url":"http://[::1]/",)" + std::string(more) + "}"));
    };
    using Texts = std::vector<std::string>;
    EXPECT_EQ(
        probe(R"("headers":{"a b":"x","":"x","Transfer-Encoding":"chunked","TE":"x"})"),
        (Texts{"programs.web.readiness.headers[\"a b\"]: is not the name of a field of HTTP",
               "programs.web.readiness.headers[\"\"]: is not the name of a field of HTTP",
               "programs.web.readiness.headers.Transfer-Encoding: is part of how the request is sent, and cannot be "
               "set",
               "programs.web.readiness.headers.TE: is part of how the request is sent, and cannot be set"}));
    EXPECT_EQ(probe(R"("headers":[])"), (Texts{"programs.web.readiness.headers: expected an object, for example "
                                               "{\"Accept\": \"text/plain\"}, found array"}));
    EXPECT_EQ(
        probe(R"("status":[99,600,"2xx","300-200",true])"),
        (Texts{"programs.web.readiness.status[0]: 99 is not within 100 to 599",
               "programs.web.readiness.status[1]: 600 is not within 100 to 599",
               R"(programs.web.readiness.status[2]: "2xx" is neither a status (200) nor a range of them (200-299))",
               R"(programs.web.readiness.status[3]: "300-200" is neither a status (200) nor a range of them (200-299))",
               "programs.web.readiness.status[4]: expected a status or a range of them, found boolean"}));
    EXPECT_EQ(probe(R"("status":[])"), (Texts{"programs.web.readiness.status: must not be empty"}));
    EXPECT_EQ(probe(R"("service":"x")"),
              (Texts{"warning: programs.web.readiness.service: has no effect for type http"}));
    EXPECT_EQ(findings(web(R"("readiness":{"type":"grpc"})")),
              (Texts{"programs.web.readiness.address: required for type grpc"}));
}

TEST(ParsePrograms, Terminals) {
    auto const with = [](std::string_view keys) {
        return findings(R"({"programs":{"web":{"command":["x"],)" + std::string(keys) +
                        R"(},"log":{"command":["x"]}}})");
    };
    using Texts = std::vector<std::string>;
    for (std::string_view const good :
         {R"("tty":true)", R"("tty":false,"stdin":"null")", R"("tty":{})", R"("tty":{"rows":1,"columns":65535})",
          R"("tty":true,"output":"null")", R"("tty":true,"output":{"format":"json"})"})
        EXPECT_EQ(with(good), Texts{}) << good;
    EXPECT_EQ(with(R"("tty":true,"stdin":"null")"), (Texts{"programs.web.stdin: cannot be used together with tty"}));
    EXPECT_EQ(with(R"("tty":true,"output":{"to":"log"})"),
              (Texts{"programs.web.output.to: cannot be used together with tty"}));
    EXPECT_EQ(with(R"("tty":true,"output":{"stderr":"null"})"),
              (Texts{"programs.web.output.stderr: cannot be used together with tty"}));
    EXPECT_EQ(with(R"("tty":"yes")"), (Texts{"programs.web.tty: expected a boolean or an object, found string"}));
    EXPECT_EQ(
        findings(R"({"programs":{"web":{"command":["x"],"output":{"to":"log"}},"log":{"command":["x"],"tty":{}}}})"),
        (Texts{R"(programs.web.output.to: "log" has another standard input)"}));
}

TEST(ParsePrograms, ReadersOfOutput) {
    auto const with = [](std::string_view reader, std::string_view more = {}) {
        return findings(R"({"programs":{"web":{"command":["x"],"output":{"to":"log"}},"log":{"command":["x"])" +
                        std::string(reader) + "}" + std::string(more) + "}}");
    };
    using Texts = std::vector<std::string>;
    EXPECT_EQ(with(""), Texts{});
    EXPECT_EQ(with(R"(,"count":2)"),
              (Texts{R"(programs.web.output.to: "log" must be one process: several would share the lines)"}));
    EXPECT_EQ(with(R"(,"oneShot":true)"), (Texts{R"(programs.web.output.to: "log" does not run all the time)"}));
    EXPECT_EQ(with(R"(,"schedule":{"every":"1s"})"),
              (Texts{R"(programs.web.output.to: "log" does not run all the time)"}));
    EXPECT_EQ(with(R"(,"stdin":"inherit")"), (Texts{R"(programs.web.output.to: "log" has another standard input)"}));
    EXPECT_EQ(with(R"(,"after":["web"])"), (Texts{"programs.web.output: cycle web -> log -> web"}));
    EXPECT_EQ(with(R"(,"output":{"to":"last"})", R"(,"last":{"command":["x"]})"), Texts{});
}

TEST(ParsePrograms, WatchedFiles) {
    auto const files = [](std::string_view value) { return findings(web(R"("files":)" + std::string(value))); };
    using Texts = std::vector<std::string>;
    EXPECT_EQ(files(R"({"paths":["/etc/ssl/cert.pem"]})"), Texts{});
    EXPECT_EQ(files(R"({"paths":[]})"), (Texts{"programs.web.files.paths: must not be empty"}));
    EXPECT_EQ(files(R"({"paths":["cert.pem"],"action":"reload","quietTime":"x"})"),
              (Texts{"programs.web.files.paths[0]: must be an absolute path",
                     R"(programs.web.files.action: "reload" is not one of restart, signal)",
                     R"(programs.web.files.quietTime: "x" is not a duration (for example 500ms, 10s, 1m30s))"}));
    EXPECT_EQ(files(R"({"paths":[{"type":"ProcessNumber"}]})"),
              (Texts{"programs.web.files.paths: cannot depend on the number of the process"}));
    EXPECT_EQ(findings(web(R"("files":{"paths":["/x"],"action":"signal"},"reloadSignal":"USR1")")), Texts{});
    EXPECT_EQ(
        findings(web(R"("schedule":{"every":"1s"},"files":{"paths":["/x"]},"order":"sequential","maxUnavailable":1)")),
        (Texts{"warning: programs.web.files: has no effect with schedule",
               "warning: programs.web.order: has no effect with schedule",
               "warning: programs.web.maxUnavailable: has no effect with schedule"}));
}

TEST(ParsePrograms, ProbesCountAgainstTheLimitOfArguments) {
    Limits limits;
    limits.arguments = 2;
    EXPECT_EQ(findings(web(R"("readiness":{"type":"tcp","address":"[::1]:1"})"), limits), std::vector<std::string>{});
    EXPECT_EQ(
        findings(web(R"("readiness":{"type":"tcp","address":"[::1]:1"},"health":{"type":"http","url":"x"})"), limits),
        (std::vector<std::string>{"programs.web.health.url: more than 2 arguments in all"}));
}

struct Document {
    std::string text;
    std::vector<std::string> findings;
};

void PrintTo(Document const& row, std::ostream* out) { *out << row.text.substr(0, 200); }

class Programs : public testing::TestWithParam<Document> {};

TEST_P(Programs, AreFoundToBe) { EXPECT_EQ(findings(GetParam().text), GetParam().findings); }

/// Programs by name, each with a command and these keys.
std::string programs(std::vector<std::pair<std::string, std::string>> const& list) {
    std::string text;
    for (auto const& [name, keys] : list) {
        text.append(text.empty() ? "" : ",").append("\"" + name + "\":{\"command\":[\"x\"]");
        text.append(keys.empty() ? "" : ",").append(keys).append("}");
    }
    return "{\"programs\":{" + text + "}}";
}

INSTANTIATE_TEST_SUITE_P(
    Forms, Programs,
    testing::Values(
        Document{R"({"programs":{}})", {}}, Document{R"({"programs":null})", {"version: required key is missing"}},
        Document{R"({"programs":[]})",
                 {"programs: expected an object, for example {\"web\": {\"command\": [\"nginx\"]}}, found array"}},
        Document{R"({"programs":{"a":[]}})",
                 {"programs.a: expected an object (keys: version, command, arguments, count and more), found array"}},
        Document{R"({"programs":{"a":null}})",
                 {"programs.a: expected an object (keys: version, command, arguments, count and more), found null"}},
        Document{R"({"program":{}})", {R"(warning: unknown key "program"; did you mean "programs"?)"}},
        Document{R"({"program":{},"version":"1"})", {R"(warning: unknown key "program"; did you mean "programs"?)"}},
        Document{R"({"version":"1","count":2,"arguments":[{}],"programs":{}})",
                 {"count: cannot be used together with programs", "arguments: cannot be used together with programs"}},
        Document{R"({"version":null,"count":null,"arguments":null,"programs":{"a":{"command":["x"]}}})", {}},
        Document{R"({"programs":{"a":{}}})", {"programs.a.command: required when there is no version"}},
        Document{R"({"programs":{"a":{"command":null,"version":null}}})",
                 {"programs.a.command: required when there is no version"}},
        Document{R"({"version":"1","programs":{"a":{},"b":{"version":"2"}}})", {}},
        Document{R"({"version":7,"programs":{"a":{}}})", {"version: expected a string, found number"}},
        Document{R"({"programs":{"a":{"command":[]}}})", {"programs.a.command: must not be empty"}},
        Document{R"({"programs":{"a":{"command":[{"type":"Concatenate","values":["x",{"type":"ProcessNumber"}]}]}}})",
                 {"programs.a.command[0]: the program cannot depend on the number of the process"}},
        Document{R"({"programs":{"a":{"command":["x",{"type":"ProcessNumber"}]}}})", {}},
        Document{R"({"version":"1","arguments":["x"]})",
                 {"arguments[0]: expected an object, for example {\"type\": \"Environment\", \"source\": \"NAME\"}, "
                  "found string"}},
        Document{R"({"programs":{"a":{"command":["x"]},"a":{"command":["y"]}}})", {"programs.a: duplicate key"}},
        Document{
            programs({{"", ""}, {"web server", ""}, {"-a", ""}, {std::string(65, 'a'), ""}}),
            {R"(programs[""]: a name is a letter or a digit and up to 63 more of them, or of ".", "_" and "-")",
             R"(programs["web server"]: a name is a letter or a digit and up to 63 more of them, or of ".", "_" and )"
             R"("-")",
             R"(programs.-a: a name is a letter or a digit and up to 63 more of them, or of ".", "_" and "-")",
             "programs[\"" + std::string(64, 'a') +
                 R"(..."]: a name is a letter or a digit and up to 63 more of them, or of ".", "_" and "-")"}},
        Document{programs({{std::string(64, 'a'), ""}, {"7", ""}, {"a.b_c-D", ""}, {"triton", ""}, {"my-triton-", ""}}),
                 {}},
        Document{programs({{"triton-x", R"("after":["triton-agent"])"}, {"triton-", ""}}),
                 {R"(programs.triton-x: names that begin with "triton-" are reserved for the launcher)",
                  R"(programs.triton-: names that begin with "triton-" are reserved for the launcher)",
                  R"(programs.triton-x.after[0]: unknown program "triton-agent")"}},
        Document{R"({"programs":{"a":{"command":"sh -c  x"}}})",
                 {R"(programs.a.command: expected an array, for example ["sh", "-c", "x"], found string)"}},
        Document{R"({"programs":{"a":{"command":"sh -c 'a b'"}}})",
                 {"programs.a.command: expected an array, found string"}},
        Document{R"({"programs":{"a":{"command":true}}})", {"programs.a.command: expected an array, found boolean"}},
        Document{R"({"programs":{"a.b":{"command":7}}})",
                 {R"(programs["a.b"].command: expected an array, for example [7], found number)"}}));

INSTANTIATE_TEST_SUITE_P(
    Counts, Programs,
    testing::Values(
        Document{programs({{"a", R"("count":65534)"}, {"b", ""}, {"c", R"("count":0)"}}), {}},
        Document{programs({{"a", R"("count":65535)"}, {"b", R"("count":0)"}}), {}},
        Document{programs({{"a", R"("count":65535)"}, {"b", ""}}),
                 {"programs: 65536 processes in all: more than 65535"}},
        Document{programs({{"a", R"("count":65535)"}, {"b", R"("count":65535,"schedule":{"every":"1h"})"}}),
                 {"programs: 131070 processes in all: more than 65535"}},
        // What does not run now counts as what would.
        Document{R"({"runServers":false,"programs":{"a":{"command":["x"],"count":65535},"b":{"command":["x"]}}})",
                 {"programs: 65536 processes in all: more than 65535"}}));

INSTANTIATE_TEST_SUITE_P(
    Relations, Programs,
    testing::Values(
        Document{programs({{"a", R"("after":["b"],"requires":["c"])"}, {"b", R"("after":["c"])"}, {"c", ""}}), {}},
        Document{programs({{"a", R"("after":["b"],"requires":["b"])"}, {"b", ""}}), {}},
        Document{programs({{"web", R"("after":["databse",1])"}, {"database", ""}}),
                 {"programs.web.after[1]: expected a string, found number",
                  R"(programs.web.after[0]: unknown program "databse"; did you mean "database"?)"}},
        Document{R"({"programs":{"a":{"command":["x"],"after":["b"]},"b":7}})",
                 {"programs.b: expected an object (keys: version, command, arguments, count and more), found number"}},
        Document{programs({{"a", R"("requires":["a"])"}}), {"programs.a.requires[0]: names the program itself"}},
        Document{programs({{"a", R"("requires":["b","b"])"}, {"b", ""}}),
                 {R"(programs.a.requires[1]: "b" is named twice)"}},
        Document{programs({{"a", R"("after":["b"])"}, {"b", R"("schedule":{"every":"1h"})"}}),
                 {R"(programs.a.after[0]: "b" runs on a schedule: it cannot be waited for)"}},
        Document{programs({{"a", R"("requires":["b"])"}, {"b", R"("requires":["a"])"}}),
                 {"programs.a.requires: cycle a -> b -> a"}},
        Document{programs({{"a", R"("bindsTo":["b"])"}, {"b", R"("before":["a"])"}}), {}},
        Document{programs({{"a", R"("before":["b"])"}, {"b", R"("before":["a","a","x","b"])"}}),
                 {R"(programs.b.before[1]: "a" is named twice)", R"(programs.b.before[1]: unknown program "x")",
                  "programs.b.before[2]: names the program itself", "programs.b.before: cycle a -> b -> a"}},
        Document{programs({{"a", R"("after":["b"],"bindsTo":["b"])"}, {"b", R"("bindsTo":["a"])"}}),
                 {"programs.a.after: cycle a -> b -> a"}},
        Document{programs({{"a", R"("before":["b"],"schedule":{"every":"1h"})"}, {"b", ""}}),
                 {"programs.a.before: a program on a schedule cannot be waited for"}},
        Document{programs({{"a", R"("before":["b"])"}, {"b", R"("schedule":{"every":"1h"})"}}), {}},
        Document{
            programs(
                {{"a", ""}, {"c", R"("after":["b"])"}, {"b", R"("requires":["d"])"}, {"d", R"("after":["a","c"])"}}),
            {"programs.c.after: cycle c -> b -> d -> c"}},
        Document{programs({{"x", R"("after":["b"])"}, {"a", R"("requires":["b"])"}, {"b", R"("after":["a"])"}}),
                 {"programs.a.requires: cycle a -> b -> a"}},  // found from b, told from a
        Document{programs({{"a", R"("after":["b"])"},
                           {"b", R"("after":["a"])"},
                           {"c", R"("after":["d"],"requires":["d"])"},
                           {"d", R"("requires":["c"])"}}),
                 {"programs.a.after: cycle a -> b -> a", "programs.c.after: cycle c -> d -> c"}}));

INSTANTIATE_TEST_SUITE_P(
    Shared, Programs,
    testing::Values(
        Document{programs({{"a", R"("sockets":[{"name":"s","listen":"tcp::80"}])"},
                           {"b", R"("sockets":[{"name":"t","listen":"tcp::80"}])"}}),
                 {}},
        Document{
            programs({{"a", R"("sockets":[{"name":"s","listen":"unix:/s"}])"},
                      {"b", R"("sockets":[{"name":"s","listen":"unix:/s","mode":"0600"}])"}}),
            {"programs.b.sockets[0]: unix:/s is also the address of programs.a.sockets[0], with other attributes"}},
        Document{
            programs({{"a", R"("sockets":[{"name":"s","listen":"unix:/s","user":"u"}])"},
                      {"b", R"("sockets":[{"name":"s","listen":"unix:/s"}])"}}),
            {"programs.b.sockets[0]: unix:/s is also the address of programs.a.sockets[0], with other attributes"}},
        Document{
            programs({{"a", R"("sockets":[{"name":"s","listen":"unix:/s"}])"},
                      {"b", R"("sockets":[{"name":"s","listen":"unix:/s","group":"g"}])"}}),
            {"programs.b.sockets[0]: unix:/s is also the address of programs.a.sockets[0], with other attributes"}},
        Document{
            programs({{"a", R"("sockets":[{"name":"s","listen":"tcp::80","backlog":8}])"},
                      {"b", R"("sockets":[{"name":"s","listen":"tcp::80","backlog":9}])"}}),
            {"programs.b.sockets[0]: tcp::80 is also the address of programs.a.sockets[0], with other attributes"}}));

TEST(ParsePrograms, EverythingAtOnce) {
    EXPECT_THAT(
        findings(R"({"runServers":1,"programs":{
                    "web":{"command":["x"],"readiness":{"type":"fd","fd":0},"watchdog":"x","requires":["databse"]},
                    "database":{"oneShot":true,"schedule":{"cron":"x"},"after":["database"]}}})"),
        ElementsAre(
            "runServers: expected a boolean, found number", "programs.web.readiness.fd: 0 is not within 3 to 65535",
            R"(programs.web.watchdog: "x" is not a duration (for example 500ms, 10s, 1m30s))",
            R"(programs.web.watchdog: needs readiness of type "notify")",
            R"(programs.database.schedule.cron: "x": needs five fields: minute, hour, day of the month, month, )"
            "day of the week",
            "programs.database.command: required when there is no version",
            "programs.database.schedule: cannot be used together with oneShot",
            R"(programs.web.requires[0]: unknown program "databse"; did you mean "database"?)",
            "programs.database.after[0]: names the program itself"));
}

TEST(ParsePrograms, OrderIsThatOfTheDocument) {
    auto const parsed = parse(programs({{"z", ""}, {"a", ""}, {"m", ""}}));
    ASSERT_TRUE(parsed);
    EXPECT_TRUE(parsed->configuration.has_programs);
    std::vector<std::string> names;
    for (Program const& program : parsed->configuration.programs)
        names.push_back(program.name);
    EXPECT_THAT(names, ElementsAre("z", "a", "m"));
}

TEST(ParsePrograms, Limits) {
    EXPECT_THAT(findings(programs({{"a", ""}, {"b", ""}, {"c", ""}}), {.programs = 2}),
                ElementsAre("programs.c: more than 2 programs"));
    EXPECT_THAT(
        findings(web(R"("sockets":[{"name":"a","listen":"tcp::1"},{"name":"b","listen":"tcp::2"}])"), {.sockets = 1}),
        ElementsAre("programs.web.sockets[1]: more than 1 sockets in all"));
    EXPECT_THAT(findings(web(R"("arguments":["a"],"environment":{"A":"1"})"), {.arguments = 2}),
                ElementsAre("programs.web.environment.A: more than 2 arguments in all"));
}

TEST(ParsePrograms, LongChainsAndDenseGraphsTakeNoStackAndNoTime) {
    std::string text;
    for (int i = 0; i < 1024; ++i) {
        text += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + R"(":{"command":["x"],"after":["p)" +
                std::to_string((i + 1) % 1024) + "\"]}";
    }
    auto const chain = findings("{\"programs\":{" + text + "}}");
    ASSERT_EQ(chain.size(), 1U);
    EXPECT_TRUE(chain[0].starts_with("programs.p0.after: cycle p0 -> p1 -> p2 -> ")) << chain[0].substr(0, 80);
    EXPECT_TRUE(chain[0].ends_with(" -> p1023 -> p0"));

    text.clear();
    for (int i = 0; i < 120; ++i) {
        text += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + R"(":{"command":["x"],"after":[)";
        for (int j = 0, n = 0; j < 120; ++j) {
            if (j != i) text += (n++ > 0 ? ",\"p" : "\"p") + std::to_string(j) + "\"";
        }
        text += "]}";
    }
    EXPECT_EQ(findings("{\"programs\":{" + text + "}}").size(), 101U);
}

/// Documents as users would write them.
TEST(ParsePrograms, Samples) {
    EXPECT_THAT(findings(R"({"programs": {
        "redis": {"command": ["redis-server", "--port", "0", "--unixsocket", "/run/redis.sock"], "user": "redis",
                  "readiness": {"type": "exec", "command": ["redis-cli", "-s", "/run/redis.sock", "ping"]}},
        "php": {"command": ["/usr/sbin/php-fpm8.2", "--nodaemonize"], "after": ["redis"], "stopSignal": "QUIT",
                "readiness": {"type": "notify"}},
        "nginx": {"command": ["nginx", "-g", "daemon off;"], "requires": ["php"], "stopSignal": "QUIT",
                  "onConfigurationChange": "signal", "reloadSignal": "HUP", "critical": true}}})"),
                IsEmpty());
    EXPECT_THAT(findings(R"({"programs": {
        "initdb": {"command": ["/usr/lib/postgresql/15/bin/initdb", "-D", "/data"], "user": "postgres", "oneShot": true},
        "postgres": {"command": ["/usr/lib/postgresql/15/bin/postgres", "-D", "/data"], "user": "postgres",
                     "requires": ["initdb"], "stopSignal": "INT", "stopTimeout": "1m",
                     "readiness": {"type": "notify"}, "startTimeout": "2m",
                     "sockets": [{"name": "pg", "listen": "unix:/run/pg.sock", "mode": "0666"}]},
        "backup": {"command": ["/usr/local/bin/backup"], "schedule": {"cron": "30 3 * * mon-fri"}, "nice": 10}}})"),
                IsEmpty());
    EXPECT_THAT(findings(R"({"programs": {"worker": {
        "command": ["python3", "-m", "worker", "--number", {"type": "ProcessNumber"}], "count": 4,
        "environment": {"QUEUE": {"type": "Environment", "source": "QUEUE_URL"}, "PYTHONUNBUFFERED": "1"},
        "output": {"format": "json"}, "limits": {"nofile": "64Ki", "core": 0},
        "cgroup": {"memoryMax": "512Mi", "cpuMax": 0.5}, "seccomp": {"profile": "strict"},
        "health": {"command": ["python3", "-m", "worker.check", {"type": "ProcessNumber"}], "interval": "10s"}}}})"),
                IsEmpty());
}

}  // namespace
}  // namespace triton::config
