#include "host/machine/listing.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace triton::machine {
namespace {

json::Node node(std::string_view text) {
    json::ProblemList problems(9);
    auto read = json::read_json(text, {}, problems);
    EXPECT_TRUE(read) << text;
    return read ? *read : json::Node{};
}

json::Node web() {
    return node(
        R"({"uuid":"00000000-0000-4000-8000-000000000001","alias":"web:0\\","type":"LX","ram":512,"state":"running",)"
        R"("autoboot":true,"tags":{"role":"www","a.b":"dotted"},)"
        R"("nics":[{"mac":"02:00:00:00:00:01","ip":"10.0.0.1"},{"mac":"02:00:00:00:00:02","ip":"10.0.0.2"}]})");
}

bool matches(std::string_view filter) {
    auto const parsed = Filter::parse(filter, "filter");
    EXPECT_TRUE(parsed) << filter;
    return parsed && parsed->matches(web());
}

TEST(Filters, ValuesAreComparedAsText) {
    EXPECT_TRUE(matches("ram=512"));
    EXPECT_FALSE(matches("ram=51"));
    EXPECT_TRUE(matches("autoboot=true"));
    EXPECT_TRUE(matches("tags.role=www"));
    EXPECT_TRUE(matches("tags.a.b=dotted"));
    EXPECT_TRUE(matches("nics.*.ip=10.0.0.2"));
    EXPECT_TRUE(matches("nics.0.ip=10.0.0.1"));
    EXPECT_FALSE(matches("nics.0.ip=10.0.0.2"));
    EXPECT_FALSE(matches("owner_uuid=x"));
}

TEST(Filters, ATildeStartsARegularExpression) {
    EXPECT_TRUE(matches("alias=~^WEB"));
    EXPECT_FALSE(matches("alias=~^eb"));
    EXPECT_EQ(Filter::parse("alias=~(", "filter").error().text(), "alias: \"(\" is not a regular expression");
    EXPECT_EQ(Filter::parse("alias=~(a)\\1", "filter").error().text(),
              "alias: \"(a)\\\\1\" is not a regular expression");
    EXPECT_EQ(Filter::parse("alias=~" + std::string(1001, 'a'), "filter").error().text(),
              "alias: the pattern is longer than 1000 bytes");
    EXPECT_TRUE(Filter::parse("alias=~" + std::string(1000, 'a'), "filter"));
}

TEST(Filters, MacsHaveSeveralSpellings) {
    EXPECT_TRUE(matches("nics.*.mac=2:0:0:0:0:2"));
    EXPECT_TRUE(matches("nics.*.mac=02:00:00:00:00:02"));
}

TEST(Filters, UuidsMayHaveUpperCaseLetters) {
    json::Node const shown = node(R"({"image_uuid":"5e6a4c11-0c2f-4a44-8c1f-00000000000a","tags":{"uuid":"A"}})");
    EXPECT_TRUE(Filter::parse("image_uuid=5E6A4C11-0C2F-4A44-8C1F-00000000000A", "lookup")->matches(shown));
    EXPECT_TRUE(Filter::parse("tags.uuid=A", "lookup")->matches(shown));
}

TEST(Filters, MistakesAreErrors) {
    EXPECT_EQ(Filter::parse("color=red", "filter").error().text(), "Invalid filter key: \"color\"");
    EXPECT_EQ(Filter::parse("nics.x.ip=1", "lookup").error().text(), "Invalid lookup key: \"nics.x.ip\"");
    EXPECT_EQ(Filter::parse("web0", "filter").error().text(), "\"web0\" is not a condition: expected KEY=VALUE");
    EXPECT_EQ(parse_columns("uuid,nics.*.ip").error().text(), "Invalid order key: \"nics.*.ip\"");
    EXPECT_EQ(parse_columns("first_uid").error().text(), "Invalid order key: \"first_uid\"");
    EXPECT_EQ(parse_sort_keys("x").error().text(), "Invalid sort key: \"x\"");
}

std::string filter_fault(std::string_view filter) {
    auto const parsed = Filter::parse(filter, "filter");
    return parsed ? "" : parsed.error().text();
}

TEST(Filters, WhatNoMachineCanHaveIsAMistake) {
    EXPECT_EQ(filter_fault("state=runing"), "state: \"runing\" is not a state; did you mean \"running\"?");
    EXPECT_EQ(filter_fault("state=unreadable"), "");
    EXPECT_EQ(filter_fault("state=~^run"), "");
    EXPECT_EQ(filter_fault("autoboot=yes"), "autoboot: expected true or false, found \"yes\"");
    EXPECT_EQ(filter_fault("ram=much"), "ram: \"much\" is not a number of MiB (for example 2, or \"2G\")");
    EXPECT_EQ(filter_fault("pid=x"), "pid: expected an integer, found \"x\"");
    EXPECT_EQ(filter_fault("alias="), "") << "those without one";
    EXPECT_EQ(filter_fault("stat=running"), "Invalid filter key: \"stat\"; did you mean \"state\"?");
    EXPECT_TRUE(matches("ram=0.5G"));
    EXPECT_TRUE(matches("ram=512M"));
}

TEST(List, TheTableHasTheColumnsOfVmadm) {
    std::vector<json::Node> const machines{
        web(), node(R"({"uuid":"00000000-0000-4000-8000-000000000002","type":"LX","ram":64,"state":"stopped"})")};
    auto const columns = parse_columns("uuid,type,ram,state,alias");
    ASSERT_TRUE(columns);
    EXPECT_EQ(table_text(machines, *columns, true),
              "UUID                                  TYPE  RAM      STATE             ALIAS\n"
              "00000000-0000-4000-8000-000000000001  LX    512      running           web:0\\\n"
              "00000000-0000-4000-8000-000000000002  LX    64       stopped           -\n");
    EXPECT_EQ(table_text(std::span(machines).first(1), *parse_columns("nics.1.ip,tags.role,cpu_shares"), true),
              "NICS.1.IP             TAGS.ROLE             CPU_SHARE\n"
              "10.0.0.2              www                   -\n");
}

/// Scripts that were written for SmartOS ask for them.
TEST(List, WhatOnlySmartOsHasIsAlwaysMissing) {
    std::vector<json::Node> const machines{web()};
    EXPECT_EQ(table_text(machines, *parse_columns("zone_state,zoneid,vcpus,cpu_type,docker,free_space,alias"), true),
              "ZONE_STATE  ZONEID  VCPUS  CPU_TYPE  DOCKER  FREE_SPACE      ALIAS\n"
              "-           -       -      -         -       -               web:0\\\n");
    EXPECT_EQ(parsable_text(machines, *parse_columns("flexible_disk_size,qemu_extra_opts,state")), "::running\n");
    EXPECT_FALSE(matches("disks.*.image_uuid=x"));
    EXPECT_FALSE(matches("disks.0.size=10"));
    EXPECT_FALSE(matches("zone_state=running"));
    EXPECT_TRUE(parse_sort_keys("vcpus,alias"));
    EXPECT_EQ(Filter::parse("disks.0.color=1", "filter").error().text(), "Invalid filter key: \"disks.0.color\"");
    EXPECT_EQ(parse_columns("disks.*.size").error().text(), "Invalid order key: \"disks.*.size\"");
}

TEST(List, ParsableValuesAreEscaped) {
    std::vector<json::Node> const machines{web()};
    EXPECT_EQ(parsable_text(machines, *parse_columns("alias,nics.0.mac,hostname,ram")),
              "web\\:0\\\\:02\\:00\\:00\\:00\\:00\\:01::512\n");
    EXPECT_EQ(parsable_text(machines, *parse_columns("cpu_shares,nics.0.mac,ram"), true),
              "CPU_SHARE:NICS.0.MAC:RAM\n:02\\:00\\:00\\:00\\:00\\:01:512\n");
}

TEST(List, NothingReachesTheTerminalThatMovesIt) {
    std::vector<json::Node> const machines{node("{\"alias\":\"a\\u001b[2Jb\\u009bc\"}")};
    EXPECT_EQ(table_text(machines, *parse_columns("alias"), false), "a\\x1b[2Jb\\x9bc\n");
}

TEST(List, NumbersAreSortedAsNumbers) {
    std::vector<json::Node> machines{node(R"({"ram":1000,"alias":"b"})"), node(R"({"ram":64,"alias":"c"})"),
                                     node(R"({"ram":64,"alias":"a"})"), node(R"({"alias":"none"})")};
    sort_machines(machines, *parse_sort_keys("ram,-alias"));
    EXPECT_EQ(parsable_text(machines, *parse_columns("alias,ram")), "none:\nc:64\na:64\nb:1000\n");
    sort_machines(machines, *parse_sort_keys("-ram,+alias"));
    EXPECT_EQ(parsable_text(machines, *parse_columns("alias,ram")), "b:1000\na:64\nc:64\nnone:\n");
}

TEST(List, ValuesOfDifferentKindsHaveOneOrder) {
    std::vector<json::Node> machines{node(R"({"alias":"a","tags":{"x":"1x"}})"),
                                     node(R"({"alias":"b","tags":{"x":9}})"), node(R"({"alias":"c","tags":{"x":10}})")};
    for (int order = 0; order < 3; ++order) {
        std::ranges::rotate(machines, machines.begin() + 1);
        auto sorted = machines;
        sort_machines(sorted, *parse_sort_keys("tags.x"));
        EXPECT_EQ(parsable_text(sorted, *parse_columns("tags.x")), "9\n10\n1x\n");
    }
}

TEST(Lookup, SelectedPartsAreAnObject) {
    EXPECT_EQ(pretty(selection(web(), *parse_columns("alias,nics.0.ip,quota"))),
              "{\n  \"alias\": \"web:0\\\\\",\n  \"nics.0.ip\": \"10.0.0.1\"\n}\n");
}

TEST(Get, JsonHasTwoBlanksForEachLevel) {
    EXPECT_EQ(
        pretty(node(R"({"a":[1,{"b":true}],"c":{},"d":[],"e":null})")),
        "{\n  \"a\": [\n    1,\n    {\n      \"b\": true\n    }\n  ],\n  \"c\": {},\n  \"d\": [],\n  \"e\": null\n}\n");
}

}  // namespace
}  // namespace triton::machine
