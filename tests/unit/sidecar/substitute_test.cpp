#include "sidecar/substitute.h"

#include <ctime>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::sidecar {
namespace {

using testing::ElementsAre;

constexpr char const* environment[] = {"NAME=value", "EMPTY=", "IPS=10.0.0.1,fd00::1", "DOLLAR=${NAME}", nullptr};

std::expected<std::string, std::vector<std::string>> texts(std::expected<std::string, json::Problems> const& result) {
    if (result) return *result;
    std::vector<std::string> problems;
    for (json::Problem const& problem : result.error())
        problems.push_back(problem.text());
    return std::unexpected(problems);
}

auto substitute(std::string_view text) { return texts(substitute_template(text, {{{"FILE", "first"}}, environment})); }

TEST(SubstituteTemplate, ReplacesWhatIsMarked) {
    struct Row {
        std::string_view text;
        std::string_view result;
    };
    Row const rows[] = {
        {"", ""},
        {"plain $ text $host $(x) {y} }", "plain $ text $host $(x) {y} }"},
        {"${NAME}", "value"},
        {"a${NAME}${FILE}z\n", "avaluefirstz\n"},
        {"$${NAME} $$${NAME} $$ $", "${NAME} $${NAME} $$ $"},
        {"${DOLLAR}", "${NAME}"},  // once
        {R"(${{"value":"}\"}{"}}!)", R"(}"}{!)"},
        {R"(${{"type":"IPList","source":"IPS","ipFamily":6}})", "fd00::1"},
        {R"(${{"type":"ProcessNumber","multiplier":2,"offset":4498}})", "4500"},
        {"${{\"type\": \"Concatenate\", \"values\": [\n {\"value\": \"a:\"},\n {\"type\": \"Environment\", "
         "\"source\": \"NAME\"}]}}",
         "a:value"},
    };
    for (Row const& row : rows)
        EXPECT_EQ(substitute(row.text), std::string(row.result)) << row.text;
}

TEST(SubstituteTemplate, KeepsBytesThatAreNoText) {
    std::string const bytes("\0\xff${NAME}\0", 10);
    EXPECT_EQ(substitute(bytes), std::string("\0\xffvalue\0", 8));
}

TEST(Substitute, EndsWhenTheResultBecomesTooLong) {
    std::string const value(100'000, 'x');
    config::Variables const variables({{"LONG", value}}, environment);
    std::string text;
    for (int i = 0; i < 160; ++i)
        text += "${LONG}\n";
    auto const fits = substitute_template(text, variables);
    ASSERT_TRUE(fits);
    EXPECT_EQ(fits->size(), 160 * (value.size() + 1));
    for (int i = 0; i < 2000; ++i)
        text += "${LONG}\n";
    std::vector<std::string> const told{"line 168, column 8: what comes of it is longer than 16 MiB"};
    EXPECT_EQ(texts(substitute_template(text, variables)), std::unexpected(told));

    text.clear();
    for (int i = 0; i < 2000; ++i)
        text += "$LONG\n";
    std::vector<std::string> const of_conf{"line 168, column 6: what comes of it is longer than 16 MiB"};
    EXPECT_EQ(texts(substitute_monitor_conf(text, {{"LONG", value}})), std::unexpected(of_conf));
}

TEST(SubstituteTemplate, TellsEveryProblemWithItsPlace) {
    auto const result = substitute(
        "${NO}\nx ${EMPTY} ${{\"type\":\"Foo\"}}\n${}${a b} ${NAME:-x}\n"
        "${{\"type\":\"IPList\",\"source\":\"NO\",\"ipFamily\":4}}\n"
        "${{\"valeu\":\"x\"}}\n${{\"type\":}}\n${{\"value\":\"x\"} }\n${open\n");
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error(),
                ElementsAre("line 1, column 1: environment variable NO is not set",
                            "line 2, column 3: environment variable EMPTY is empty",
                            "line 2, column 12: type: unknown type \"Foo\" (known: Literal, Concatenate, Environment, "
                            "ProcessNumber, IPList)",
                            "line 3, column 1: \"\" is not the name of a variable; for a plain ${ write $${",
                            "line 3, column 4: \"a b\" is not the name of a variable; for a plain ${ write $${",
                            "line 3, column 11: NAME:-x is not the name of a variable; for a plain ${ write $${",
                            "line 4, column 1: source: environment variable NO is not set",
                            "line 5, column 1: unknown key \"valeu\"; did you mean \"value\"?",
                            testing::StartsWith("line 6, column 1: "),
                            "line 7, column 1: ${ without its }; for a plain ${ write $${",
                            "line 8, column 1: ${ without its }; for a plain ${ write $${"));
}

TEST(SubstituteTemplate, ObjectWithoutEnd) {
    EXPECT_EQ(substitute("${{\"value\":\"}").error(),
              std::vector<std::string>{"line 1, column 1: ${ without its }; for a plain ${ write $${"});
}

TEST(SubstituteTemplate, WhatIsInsideOfOneWithoutEndIsToldOnce) {
    auto const no_end = [](std::string const& place) { return place + ": ${ without its }; for a plain ${ write $${"; };
    EXPECT_THAT(substitute("${a ${b\n${c\n").error(),
                ElementsAre(no_end("line 1, column 1"), no_end("line 2, column 1")));
    EXPECT_THAT(substitute("${{\"value\":\"${NO}\"} ${{ ${NO} ${{").error(),
                ElementsAre(no_end("line 1, column 1"), no_end("line 1, column 21"),
                            "line 1, column 25: environment variable NO is not set"));
}

std::string repeated(std::string_view unit, std::size_t size) {
    std::string text;
    while (text.size() < size)
        text += unit;
    return text;
}

double cpu_seconds() {
    timespec now{};
    EXPECT_EQ(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

/// The largest that is read. What looks through the rest of it for each problem takes minutes.
TEST(SubstituteTemplate, AMegabyteOfProblemsTakesNoTime) {
    constexpr std::size_t size = 1 << 20;
    std::string const nested = repeated("${{ ", size / 2) + repeated("} ", size / 2);
    for (std::string const& text : {repeated("${}", size), repeated("${}\n", size), repeated("${{", size),
                                    repeated("${", size), repeated("${{\"\\\"", size), nested}) {
        double const began = cpu_seconds();
        auto const result = substitute(text);
        ASSERT_FALSE(result);
        EXPECT_FALSE(result.error().empty());
        EXPECT_LT(cpu_seconds() - began, 10) << text.substr(0, 8);
    }
}

std::vector<std::string> shown(std::vector<MonitorVariable> const& variables) {
    std::vector<std::string> list;
    for (MonitorVariable const& variable : variables)
        list.push_back(variable.name + "=" + variable.value.value_or("<none>"));
    return list;
}

TEST(MonitorVariables, FallBackAsInTheOldSidecar) {
    constexpr char const* little[] = {"FDB_POD_IP=10.1.1.1", "HOSTNAME=pod-1", "FDB_PUBLIC_IP=", nullptr};
    EXPECT_THAT(shown(monitor_variables({{}, little}, {"MINE"}, {}, std::nullopt)),
                ElementsAre("FDB_PUBLIC_IP=10.1.1.1", "FDB_POD_IP=10.1.1.1", "FDB_MACHINE_ID=pod-1",
                            "FDB_ZONE_ID=pod-1", "FDB_INSTANCE_ID=<none>", "BINARY_DIR=<none>", "MINE=<none>"));
    constexpr char const* all[] = {"FDB_PUBLIC_IP=1.2.3.4",
                                   "FDB_POD_IP=10.1.1.1",
                                   "FDB_MACHINE_ID=m",
                                   "HOSTNAME=h",
                                   "FDB_INSTANCE_ID=i",
                                   "MINE=x",
                                   nullptr};
    EXPECT_THAT(shown(monitor_variables({{}, all}, {"MINE"}, {}, "/usr/bin")),
                ElementsAre("FDB_PUBLIC_IP=1.2.3.4", "FDB_POD_IP=10.1.1.1", "FDB_MACHINE_ID=m", "FDB_ZONE_ID=m",
                            "FDB_INSTANCE_ID=i", "BINARY_DIR=/usr/bin", "MINE=x"));
}

TEST(MonitorVariables, OfOneAddressFamily) {
    constexpr char const* lists[] = {"FDB_PUBLIC_IP=10.0.0.1, fd00::1,fd00::2", "FDB_POD_IP=10.0.0.9", nullptr};
    auto const v4 = monitor_variables({{}, lists}, {}, config::IpFamily::v4, {});
    EXPECT_EQ(v4[0].value, "10.0.0.1");
    EXPECT_EQ(v4[1].value, "10.0.0.9");
    auto const v6 = monitor_variables({{}, lists}, {}, config::IpFamily::v6, {});
    EXPECT_EQ(v6[0].value, "[fd00::1]");
    EXPECT_EQ(texts(substitute_monitor_conf("$FDB_PUBLIC_IP", v6)), "[fd00::1]");
    EXPECT_EQ(texts(substitute_monitor_conf("$FDB_POD_IP", v6)).error(),
              std::vector<std::string>{"line 1, column 1: $FDB_POD_IP has no IPv6 address: 10.0.0.9"});
    constexpr char const* pod[] = {"FDB_POD_IP=fd00::9,10.0.0.9", nullptr};
    EXPECT_EQ(monitor_variables({{}, pod}, {}, config::IpFamily::v4, {})[0].value, "10.0.0.9");
}

TEST(SubstituteMonitorConf, TheLongerNameIsMeantAndUnknownOnesStay) {
    std::vector<MonitorVariable> const variables{{"FDB_ZONE", "z"}, {"FDB_ZONE_ID", "$FDB_ZONE"}, {"UNUSED", {}}};
    EXPECT_EQ(texts(substitute_monitor_conf("a=$FDB_ZONE_ID\nb=$FDB_ZONE $ID $ $$FDB_ZONEX ${FDB_ZONE}", variables)),
              "a=$FDB_ZONE\nb=z $ID $ $zX ${FDB_ZONE}");
}

TEST(SubstituteMonitorConf, AFurtherVariableDoesNotReplaceOneThatWeMake) {
    constexpr char const* environment[] = {"FDB_PUBLIC_IP=fd00::1,10.0.0.1", "FDB_POD_IP=10.0.0.9", nullptr};
    auto const variables =
        monitor_variables({{}, environment}, {"FDB_PUBLIC_IP", "FDB_ZONE_ID"}, config::IpFamily::v4, {});
    EXPECT_EQ(texts(substitute_monitor_conf("$FDB_PUBLIC_IP", variables)), "10.0.0.1");
}

TEST(MonitorVariables, HaveEachNameOnce) {
    constexpr char const* environment[] = {"FDB_POD_IP=fd00::9,10.0.0.9", "HOSTNAME=h", "MINE=x", nullptr};
    std::vector<std::string> const further{"FDB_POD_IP", "FDB_ZONE_ID", "MINE", "MINE"};
    EXPECT_THAT(shown(monitor_variables({{}, environment}, further, config::IpFamily::v4, {})),
                ElementsAre("FDB_PUBLIC_IP=10.0.0.9", "FDB_POD_IP=10.0.0.9", "FDB_MACHINE_ID=h", "FDB_ZONE_ID=h",
                            "FDB_INSTANCE_ID=<none>", "BINARY_DIR=<none>", "MINE=x"));
}

TEST(MonitorVariables, OnlyAListCanLackAFamily) {
    constexpr char const* environment[] = {"FDB_PUBLIC_IP=10.0.0.1", "FDB_POD_IP=", nullptr};
    auto const v6 = monitor_variables({{}, environment}, {}, config::IpFamily::v6, {});
    EXPECT_TRUE(v6[0].lacks_family);
    EXPECT_FALSE(v6[1].lacks_family);
    EXPECT_EQ(v6[1].value, std::nullopt);
}

TEST(SubstituteMonitorConf, AVariableInUseNeedsAValue) {
    std::vector<MonitorVariable> const variables{{"A", {}}, {"B", {}}, {"C", {}}};
    EXPECT_EQ(texts(substitute_monitor_conf("x $A\n$C", variables)).error(),
              (std::vector<std::string>{"line 1, column 3: $A has no value", "line 2, column 1: $C has no value"}));
}

TEST(SubstituteMonitorConf, AMegabyteOfProblemsTakesNoTime) {
    std::vector<MonitorVariable> const variables{{"A", {}}};
    for (std::string const& text : {repeated("$A", 1 << 20), repeated("$A\n", 1 << 20)}) {
        double const began = cpu_seconds();
        EXPECT_EQ(texts(substitute_monitor_conf(text, variables)).error().size(), 101U);
        EXPECT_LT(cpu_seconds() - began, 10);
    }
}

}  // namespace
}  // namespace triton::sidecar
