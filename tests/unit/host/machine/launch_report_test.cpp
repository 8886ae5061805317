#include "host/machine/launch_report.h"

#include <gtest/gtest.h>

#include "lib/json/writer.h"

namespace triton::machine {
namespace {

json::Object object(std::string_view text) {
    json::ProblemList problems(9);
    auto read = json::read_json(text, {}, problems);
    auto* const found = read ? std::get_if<json::Object>(&read->value) : nullptr;
    EXPECT_TRUE(found) << text;
    return found ? std::move(*found) : json::Object{};
}

std::string text(json::Object const& object) {
    json::Writer out;
    out.value(object);
    return std::move(out).text();
}

constexpr std::string_view reported =
    R"({"launcher":{"version":"1.2","pid":1,"uptime_seconds":3.5,"phase":"running","rejection":["password is x"],)"
    R"("reporter":{"state":"ok","detail":"https://user:x@host","last_success":1.5},"programs":["web"]},)"
    R"("programs":[{"name":"web","next_run_in_seconds":2,"processes":[{"number":1,"state":"up","uptime_seconds":9.1,)"
    R"("memory_bytes":4096,"cpu_seconds":0.1,"restart_in_seconds":1,"started_seconds_ago":4,)"
    R"("last_exit":{"error":"cannot execute x","oom_killed":false},"status":"token x"}]}],"other":1})";

TEST(LaunchReport, HasOnlyWhatStays) {
    EXPECT_EQ(text(lasting_report(object(reported))),
              R"({"launcher":{"version":"1.2","pid":1,"phase":"running","rejection":["password is x"],)"
              R"("reporter":{"state":"ok","detail":"https://user:x@host"},"programs":["web"]},)"
              R"("programs":[{"name":"web","processes":[{"number":1,"state":"up",)"
              R"("last_exit":{"error":"cannot execute x","oom_killed":false},"status":"token x"}]}]})");
}

TEST(LaunchReport, WhatMayQuoteAConfigurationIsNotForAll) {
    EXPECT_EQ(
        text(open_report(lasting_report(object(reported)))),
        R"({"launcher":{"version":"1.2","pid":1,"phase":"running","reporter":{"state":"ok"},"programs":["web"]},)"
        R"("programs":[{"name":"web","processes":[{"number":1,"state":"up","last_exit":{"oom_killed":false}}]}]})");
}

TEST(LaunchReport, OddTypesBecomeNothing) {
    EXPECT_EQ(
        text(lasting_report(object(
            R"({"launcher":7,"programs":[1,{"name":{"deep":1},"kind":[{"a":1}],"processes":"x"}],"error":null})"))),
        R"({"launcher":{},"programs":[{"processes":{}}],"error":null})");
}

TEST(LaunchReport, ALongOneIsAnError) {
    std::string const name(200 << 10, 'x');
    auto const fits = object(R"({"programs":[{"name":")" + name + R"("}]})");
    EXPECT_EQ(text(lasting_report(fits)), text(fits));
    EXPECT_EQ(text(lasting_report(object(R"({"programs":[{"name":")" + name + R"("},{"name":")" + name + R"("}]})"))),
              R"({"error":"it reports more than 256 KiB"})");
}

}  // namespace
}  // namespace triton::machine
