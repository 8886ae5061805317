#include "sidecar/agent/status.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "config/limits.h"
#include "sidecar/agent/metrics.h"
#include "sidecar/control/control_reply.h"

namespace triton::agent {
namespace {

json::Node node(std::string_view json) {
    json::ProblemList problems{1};
    auto parsed = json::read_json(json, json::Limits{}, problems);
    EXPECT_TRUE(parsed) << json;
    return parsed ? *parsed : json::Node{};
}

SupervisionStatus status_of(std::string_view launcher, std::vector<std::string_view> const& lists) {
    std::vector<json::Node> parts;
    for (std::string_view const list : lists)
        parts.push_back(node(list));
    return supervision_status(node(launcher), parts);
}

TEST(ControlReply, EveryKind) {
    auto const good = sidecar::control::parse_control_reply(R"({"parameters":{"a":1},"continues":true})");
    ASSERT_TRUE(good);
    EXPECT_TRUE(good->continues);
    EXPECT_NE(json::member(good->parameters, "a"), nullptr);
    auto const bare = sidecar::control::parse_control_reply("{}");
    ASSERT_TRUE(bare);
    EXPECT_FALSE(bare->continues);
    auto const missing =
        sidecar::control::parse_control_reply(R"({"error":"org.varlink.service.MethodNotFound","parameters":{}})");
    EXPECT_EQ(missing.error().text(), ("org.varlink.service.MethodNotFound"));
    auto const failed =
        sidecar::control::parse_control_reply(R"({"error":"org.x.Failed","parameters":{"reason":"disk full"}})");
    EXPECT_EQ(failed.error().text(), ("org.x.Failed: disk full"));
    struct Row {
        std::string_view frame;
        std::string_view reason;
    };
    for (Row const& row :
         {Row{"", "is empty"}, Row{"[]", "expected an object, found array"},
          Row{"1", "expected an object, found number"}, Row{R"({"error":1})", "\"error\" cannot be of type number"}}) {
        auto const reply = sidecar::control::parse_control_reply(row.frame);
        ASSERT_FALSE(reply) << row.frame;
        EXPECT_EQ(reply.error().kind, ErrorKind::corrupt);
        EXPECT_EQ(reply.error().text(), row.reason);
    }
    for (std::string_view const bad : {"{", "{}{}"})
        EXPECT_FALSE(sidecar::control::parse_control_reply(bad)) << bad;
}

TEST(ControlReply, TheLongestConfigurationFits) {
    std::string escaped;  // the worst that a document can be made of
    for (std::size_t i = 0; i < json::Limits{}.document_bytes; ++i)
        escaped += "\\\"";
    auto const reply =
        sidecar::control::parse_control_reply(R"({"parameters":{"configuration":")" + escaped + R"("}})");
    ASSERT_TRUE(reply) << reply.error().text();
    EXPECT_EQ(json::text_of(reply->parameters, "configuration"), std::string(json::Limits{}.document_bytes, '"'));
}

TEST(SupervisionStatus, WhatIsMissingOrOddCountsAsAbsent) {
    auto const empty = status_of("{}", {});
    EXPECT_TRUE(empty.programs.empty());
    EXPECT_FALSE(readiness(empty).is_ready);
    auto const odd = status_of(R"({"launcher":{"phase":3,"uptime_seconds":"x","rejection":[1,"why"]}})",
                               {R"({"programs":[{"name":7,"processes":{}},{"processes":[3,{}]}]})"});
    EXPECT_EQ(odd.rejection, std::vector<std::string>{"why"});
    ASSERT_EQ(odd.programs.size(), 1U) << "both are the unnamed one";
    ASSERT_EQ(odd.programs[0].processes.size(), 2U);
    EXPECT_EQ(odd.programs[0].processes[1].number, 1);
}

TEST(SupervisionStatus, AProgramMayGoOnInTheNextPart) {
    auto const status =
        status_of(R"({"launcher":{"phase":"running","has_configuration":true,"uptime_seconds":1.5}})",
                  {R"({"programs":[{"name":"a","wanted":2,"processes":[{"number":1}]}]})",
                   R"({"programs":[{"name":"a","wanted":2,"processes":[{"number":2}]},{"name":"b"}]})"});
    ASSERT_EQ(status.programs.size(), 2U);
    EXPECT_EQ(status.programs[0].processes.size(), 2U);
    EXPECT_EQ(status.uptime_seconds, 1.5);
}

TEST(Readiness, NamesWhatIsNotReady) {
    auto status = status_of(R"({"launcher":{"phase":"running","has_configuration":true}})", {});
    EXPECT_EQ(readiness(status).text, "ready\n");
    SupervisedProgram program;
    program.name = "web";
    program.kind = "service";
    program.wanted = 2;
    SupervisedProcess process;
    process.state = "backoff";
    program.processes.push_back(process);
    process.number = 2;
    process.state = "done";
    program.processes.push_back(process);
    process.number = 3;  // more than are wanted: on its way out
    process.state = "stopping";
    program.processes.push_back(process);
    status.programs.push_back(program);
    EXPECT_EQ(readiness(status).text, "[-]web not ready: process 1 backoff\nnot ready\n");
    status.programs[0].is_ready = true;
    EXPECT_EQ(readiness(status).text, "[+]web ok\nready\n");
    status.programs[0].is_ready = false;
    status.programs[0].kind = "scheduled";
    EXPECT_TRUE(readiness(status).is_ready);
    status.phase = "stopping";
    EXPECT_EQ(readiness(status).text, "[-]launcher stopping\nnot ready\n");
}

TEST(HashesRequest, GoodAndBad) {
    EXPECT_EQ(parse_hashes_request(R"({"paths":["a","b/c"],"more":1})", 2), (std::vector<std::string>{"a", "b/c"}));
    EXPECT_EQ(parse_hashes_request(R"({"paths":["a","b","c"]})", 2).error(), "more than 2 paths in one request");
    EXPECT_EQ(parse_hashes_request(R"({"paths":["a",""]})", 2).error(), "paths[1] is not a path");
    EXPECT_EQ(parse_hashes_request("[]", 2).error(), "the body is not an object with an array \"paths\"");
    EXPECT_TRUE(parse_hashes_request("{", 2).error().starts_with("the body is not JSON: "));
}

/// Each family once, before its samples, its samples together; a counter's samples end in _total.
void expect_well_formed(std::string const& text, bool is_open_metrics) {
    std::vector<std::string> seen;
    std::string family;
    std::string kind;
    std::size_t at = 0;
    for (; at < text.size(); at = text.find('\n', at) + 1) {
        std::string const line = text.substr(at, text.find('\n', at) - at);
        if (line == "# EOF") break;
        if (line.starts_with("# TYPE ")) {
            family = line.substr(7, line.rfind(' ') - 7);
            kind = line.substr(line.rfind(' ') + 1);
            EXPECT_EQ(std::ranges::count(seen, family), 0) << line;
            seen.push_back(family);
        } else if (line.starts_with("# HELP ")) {
            EXPECT_TRUE(line.starts_with("# HELP " + family + " ")) << line;
        } else {
            std::string const name = line.substr(0, line.find_first_of("{ "));
            EXPECT_EQ(name, is_open_metrics && kind == "counter" ? family + "_total" : family) << line;
        }
    }
    EXPECT_EQ(text.substr(at), is_open_metrics ? "# EOF\n" : "");
}

TEST(StageRequest, GoodAndBad) {
    EXPECT_EQ(parse_stage_request(""), "all");
    EXPECT_EQ(parse_stage_request("{}"), "all");
    EXPECT_EQ(parse_stage_request(R"({"what":"monitor_conf"})"), "monitor_conf");
    for (std::string_view const bad : {"[]", "1", "{"})
        EXPECT_EQ(parse_stage_request(bad), std::unexpected("the body is not a JSON object")) << bad;
    for (std::string_view const bad : {R"({"what":""})", R"({"what":["all"]})", R"({"what":"All"})"}) {
        EXPECT_EQ(parse_stage_request(bad),
                  std::unexpected("\"what\" is not one of all, files, binaries, libraries, monitor_conf"))
            << bad;
    }
}

TEST(StagingReply, IsWrittenAsItWasRead) {
    auto const reply = staging_reply({node(R"({"files":["/out/a\n",3],"errors":[]})"), node(R"({"errors":["why"]})")});
    EXPECT_EQ(staging_json(reply), "{\"files\":[\"/out/a\\n\"],\"errors\":[\"why\"]}\n");
    EXPECT_EQ(staging_json({}), "{\"files\":[],\"errors\":[]}\n");
}

TEST(Readiness, TheLaunchersOwnProgramsDoNotCount) {
    auto const status = status_of(R"({"launcher":{"phase":"running","has_configuration":true}})",
                                  {R"({"programs":[{"name":"web","ready":true},
                                                   {"name":"triton-agent","ready":false,"internal":true}]})"});
    EXPECT_TRUE(readiness(status).is_ready);
    EXPECT_EQ(readiness(status).text, "[+]web ok\nready\n");
}

TEST(StartTimes, StayWhatTheyAreUntilThereIsAnother) {
    StartTimes times;
    auto const started = [&times](double now, double uptime, int starts, double ago) {
        SupervisionStatus status;
        status.uptime_seconds = uptime;
        status.programs.resize(1);
        status.programs[0].processes.resize(2);
        status.programs[0].processes[0].starts = starts;
        status.programs[0].processes[0].started_seconds_ago = ago;
        times.settle(status, now);
        EXPECT_EQ(status.programs[0].processes[1].started_at, std::nullopt);
        return std::pair(status.started_at, status.programs[0].processes[0].started_at.value_or(-1));
    };
    EXPECT_EQ(started(1000.1, 50, 1, 20), (std::pair(950.0, 980.0)));
    EXPECT_EQ(started(1009.9, 60, 1, 30), (std::pair(950.0, 980.0))) << "not 949 and 979";
    EXPECT_EQ(started(1031.2, 80, 1, 50), (std::pair(950.0, 980.0))) << "not 951 and 981";
    EXPECT_EQ(started(1041.2, 90, 2, 60), (std::pair(950.0, 981.0))) << "another start";
    EXPECT_EQ(started(1061.2, 100, 2, 70), (std::pair(961.0, 991.0))) << "the clock was set";
}

TEST(Metrics, BothFormatsAreWellFormed) {
    auto status = status_of(
        R"({"launcher":{"version":"0.1","phase":"running","uptime_seconds":2.25,"configuration_changes":3,)"
        R"("configuration_time":1000.5,"rejection":["x"]}})",
        {R"({"programs":[{"name":"a\"\\\n","wanted":1,"ready":true,"version":"7.1","processes":[{"number":1,"state":"up",)"
         R"("ready":true,"starts":2,"uptime_seconds":1,"memory_bytes":5,"cpu_seconds":0.25,"version":"7.1"},)"
         R"({"number":2,"state":"backoff","starts":4,"started_seconds_ago":30}]},{"name":"off","version":"7.3"}]})"});
    StartTimes().settle(status, 100);
    AgentFigures figures;
    figures.requests[{Endpoint::check_hash, 200}] = 7;
    figures.certificate_not_after = 123;
    for (auto const format : {MetricsFormat::prometheus_text, MetricsFormat::open_metrics}) {
        std::string const text = render_metrics(&status, figures, "1.0", format);
        expect_well_formed(text, format == MetricsFormat::open_metrics);
        for (std::string_view const line :
             {R"(triton_launch_process_starts_total{program="a\"\\\n",process="1"} 2)",
              R"(triton_launch_process_cpu_seconds_total{program="a\"\\\n",process="1"} 0.25)",
              R"(triton_launch_process_start_time_seconds{program="a\"\\\n",process="1"} 99)",
              "triton_launch_start_time_seconds 97", "triton_launch_configuration_rejected 1",
              R"(triton_agent_requests_total{endpoint="check_hash",code="200"} 7)",
              R"(fdbkubernetesmonitor_restart_count{process="a\"\\\n:1"} 2)",
              R"(fdbkubernetesmonitor_running_version{version="7.1"} 1)",
              R"(fdbkubernetesmonitor_running_version{version="7.3"} 0)",
              R"(fdbkubernetesmonitor_desired_version{version="7.1"} 1)",
              R"(fdbkubernetesmonitor_desired_version{version="7.3"} 1)",
              R"(fdbkubernetesmonitor_start_timestamp{process="a\"\\\n:1"} 99)",
              R"(fdbkubernetesmonitor_start_timestamp{process="a\"\\\n:2"} 70)",
              "triton_agent_certificate_not_after_seconds 123"}) {
            EXPECT_NE(text.find("\n" + std::string(line) + "\n"), text.npos) << line;
        }
        expect_well_formed(render_metrics(nullptr, {}, "1.0", format), format == MetricsFormat::open_metrics);
    }
}

TEST(Metrics, TheFormatIsTheOneThatIsAccepted) {
    EXPECT_EQ(metrics_format(""), MetricsFormat::prometheus_text);
    EXPECT_EQ(metrics_format("text/plain"), MetricsFormat::prometheus_text);
    EXPECT_EQ(metrics_format("application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"),
              MetricsFormat::open_metrics);
    constexpr auto text = MetricsFormat::prometheus_text;
    constexpr auto open_metrics = MetricsFormat::open_metrics;
    struct Row {
        std::string_view accept;
        MetricsFormat format;
    };
    Row const rows[] = {
        {"application/openmetrics-text", open_metrics},
        {"Application/OpenMetrics-Text ; version=1.0.0", open_metrics},
        {"application/openmetrics-text;q=0", text},
        {"application/openmetrics-text; Q = 0.000, text/plain", text},
        {"application/openmetrics-text;q=0,*/*", text},
        {"application/openmetrics-text;q=0.2,text/plain;q=0.8", text},
        {"text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.6", open_metrics},
        {"application/openmetrics-text,text/plain", open_metrics},
        {"application/openmetrics-text;q=", text},
        {"application/openmetrics-text;q=high", text},
        {"application/openmetrics-text;q=nan", text},
        {"application/openmetrics-text2", text},
        {"x/application/openmetrics-text", text},
        {",;,q=1;", text},
    };
    for (Row const& row : rows)
        EXPECT_EQ(metrics_format(row.accept), row.format) << row.accept;
}

TEST(ProgramsJson, JoinsThePartsOfAList) {
    EXPECT_EQ(programs_json({node(R"({"programs":[{"name":"a"},{"name":"b"}]})"), node("{}"),
                             node(R"({"programs":[{"name":"c"}]})")}),
              R"([{"name":"a"},{"name":"b"},{"name":"c"}])");
    EXPECT_EQ(programs_json({node(R"({"programs":[{"name":"a"},{"name":"b","processes":[]}]})"),
                             node(R"({"programs":[{"name":"b","processes":[{"number":1}]}]})"),
                             node(R"({"programs":[{"name":"b","processes":[{"number":2}]},{"name":"c"}]})")}),
              R"([{"name":"a"},{"name":"b","processes":[{"number":1},{"number":2}]},{"name":"c"}])");
    EXPECT_EQ(programs_json({}), "[]");
}

}  // namespace
}  // namespace triton::agent
