#include "config/time_zone.h"

#include <cstdlib>
#include <ctime>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::config {
namespace {

std::string number(std::int64_t value, int size) {
    std::string bytes;
    for (int shift = (size - 1) * 8; shift >= 0; shift -= 8)
        bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> shift);
    return bytes;
}

struct Change {
    std::int64_t at;
    int type;
};

std::string header(std::size_t times, std::size_t types) {
    return "TZif2" + std::string(15, '\0') + number(0, 4) + number(0, 4) + number(0, 4) +
           number(static_cast<std::int64_t>(times), 4) + number(static_cast<std::int64_t>(types), 4) + number(4, 4);
}

/// A file of version 2 with these changes between these offsets, and a rule behind them.
std::string file(std::vector<std::int32_t> const& offsets, std::vector<Change> const& changes,
                 std::string const& rule) {
    std::string bytes = header(0, 1) + number(0, 4) + std::string(2, '\0') + std::string("UTC\0", 4);
    bytes += header(changes.size(), offsets.size());
    for (Change const& change : changes)
        bytes += number(change.at, 8);
    for (Change const& change : changes)
        bytes += static_cast<char>(change.type);
    for (std::int32_t const offset : offsets)
        bytes += number(offset, 4) + std::string(2, '\0');
    return bytes + std::string("UTC\0", 4) + "\n" + rule + "\n";
}

TimeZone zone(std::string const& rule) {
    auto const made = TimeZone::parse(file({0}, {}, rule));
    EXPECT_TRUE(made) << (made ? "" : made.error());
    return made.value_or(TimeZone());
}

constexpr auto berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
constexpr std::int64_t spring = 1774746000;  // 2026-03-29 01:00 UTC: 02:00 becomes 03:00
constexpr std::int64_t autumn = 1792890000;  // 2026-10-25 01:00 UTC: 03:00 becomes 02:00
constexpr std::int64_t hour = 3600;
constexpr std::int64_t day = 24 * hour;

std::vector<std::int64_t> runs(std::string_view expression, TimeZone const& zone, std::int64_t from, int count) {
    std::vector<std::int64_t> all;
    auto const parsed = parse_cron(expression);
    EXPECT_TRUE(parsed);
    for (int i = 0; i < count; ++i) {
        auto const next = next_after(*parsed, zone, from);
        if (!next) break;
        EXPECT_GT(*next, from);
        all.push_back(from = *next);
    }
    return all;
}

using testing::ElementsAre;

TEST(TimeZone, FollowsTheClockOfThePlace) {
    // 12:00 in winter and in summer
    EXPECT_THAT(runs("0 12 * * *", zone(berlin), spring - day, 3),
                ElementsAre(spring - 14 * hour, spring + 9 * hour, spring + 9 * hour + day));
    EXPECT_THAT(runs("0 12 * * *", zone(berlin), autumn - day, 2), ElementsAre(autumn - 15 * hour, autumn + 10 * hour));
}

TEST(TimeZone, WhatTheClockLeavesOutIsRightAfterIt) {
    EXPECT_THAT(runs("30 2 * * *", zone(berlin), spring - day, 3),
                ElementsAre(spring - day + hour / 2, spring, spring + day - hour / 2));
    EXPECT_THAT(runs("15,45 2 * * *", zone(berlin), spring - hour, 2), ElementsAre(spring, spring + day - 3 * hour / 4))
        << "once for all that is left out";
}

TEST(TimeZone, WhatTheClockRepeatsIsOnce) {
    EXPECT_THAT(runs("30 2 * * *", zone(berlin), autumn - hour, 2),
                ElementsAre(autumn - hour / 2, autumn + day + hour / 2));
    EXPECT_THAT(runs("30 2 * * *", zone(berlin), autumn, 1), ElementsAre(autumn + day + hour / 2));
    EXPECT_THAT(runs("0 3 * * *", zone(berlin), autumn - hour, 1), ElementsAre(autumn + hour));
}

TEST(TimeZone, WhatHasEveryHourFollowsTheTimeThatPasses) {
    EXPECT_THAT(runs("30 * * * *", zone(berlin), autumn - 2 * hour, 4),
                ElementsAre(autumn - 3 * hour / 2, autumn - hour / 2, autumn + hour / 2, autumn + 3 * hour / 2));
    EXPECT_THAT(runs("0 * * * *", zone(berlin), spring - hour, 3),
                ElementsAre(spring, spring + hour, spring + 2 * hour));
    EXPECT_THAT(runs("*/20 * * * *", zone(berlin), spring - hour / 3, 2), ElementsAre(spring, spring + hour / 3));
}

TEST(TimeZone, RareDatesAreFound) {
    auto const leap_day = runs("0 0 29 2 *", zone(berlin), spring, 2);
    EXPECT_THAT(leap_day, ElementsAre(1835391600, 1961622000));  // 2028 and 2032, at 23:00 UTC of the day before
    EXPECT_EQ(runs("0 0 29 2 0", zone(berlin), spring, 1).size(), 1U);
}

TEST(TimeZone, TheFileComesBeforeItsRule) {
    // -5 until 1000000, then -4 until 2000000, then as the rule says
    auto const made = TimeZone::parse(file({-18000, -14400}, {{1000000, 1}, {2000000, 0}}, "EST5EDT,M3.2.0,M11.1.0"));
    ASSERT_TRUE(made);
    EXPECT_EQ(made->at(0).offset, -18000);
    EXPECT_EQ(made->at(999999).end, 1000000);
    EXPECT_EQ(made->at(1000000).offset, -14400);
    EXPECT_EQ(made->at(1000000).offset_before, -18000);
    EXPECT_EQ(made->at(2000000).offset, -18000);
    EXPECT_EQ(made->at(2000000).begin, 2000000);
    EXPECT_EQ(made->at(spring).offset, -14400);
}

/// libc understands the same rules, as TZ.
TEST(TimeZone, WhatTheLastChangeOfTheFileRepeatsIsOnce) {
    // Volgograd since 2020: 02:00 became 01:00 for good
    constexpr std::int64_t winter = 1609020000;  // 2020-12-26 22:00 UTC
    auto const made = TimeZone::parse(file({10800, 14400}, {{1000000, 1}, {winter, 0}}, "<+03>-3"));
    ASSERT_TRUE(made);
    EXPECT_THAT(runs("30 1 * * *", *made, winter - hour, 2), ElementsAre(winter - hour / 2, winter + day + hour / 2));
    EXPECT_EQ(made->at(winter).begin, winter);
    EXPECT_EQ(made->at(winter).offset_before, 14400);
    auto const without_rule = TimeZone::parse(file({10800, 14400}, {{1000000, 1}, {winter, 0}}, ""));
    ASSERT_TRUE(without_rule);
    EXPECT_THAT(runs("30 1 * * *", *without_rule, winter - hour, 2),
                ElementsAre(winter - hour / 2, winter + day + hour / 2));
}

TEST(TimeZone, TheRuleIsForTimesAfterTheLastOneOfTheFile) {
    // -4 since 1000000, and nothing changes in 1973 but the name
    constexpr std::int64_t july = 110419200;  // 1973-07-02 00:00 UTC
    auto const made = TimeZone::parse(file({-18000, -14400}, {{1000000, 1}, {july, 1}}, "EST5EDT,M3.2.0,M11.1.0"));
    ASSERT_TRUE(made);
    EXPECT_EQ(made->at(july - 182 * day).offset, -14400) << "winter, by the file";
    EXPECT_EQ(made->at(july - 182 * day).end, july);
    EXPECT_EQ(made->at(july).offset, -14400);
    EXPECT_EQ(made->at(july).begin, 1000000);
    EXPECT_EQ(made->at(july + 182 * day).offset, -18000) << "winter, by the rule";
    EXPECT_THAT(runs("0 12 * * *", *made, july - day, 2), ElementsAre(july - 8 * hour, july + 16 * hour));
}

TEST(TimeZone, AFileThatContradictsItsRuleIsLeftAtItsLastTime) {
    auto const made = TimeZone::parse(file({0, 7200}, {{1000000, 1}}, "EST5"));
    ASSERT_TRUE(made);
    TimeZone::Span const span = made->at(2000000);
    EXPECT_EQ(span.begin, 1000000);
    EXPECT_EQ(span.offset, -18000);
    EXPECT_EQ(span.offset_before, 7200);
}

TEST(TimeZone, SummerTimeMayLastAllTheYear) {
    // The example of RFC 9636, 3.3.1: it ends and begins at 2028-01-01 03:00 UTC
    TimeZone const all_year = zone("XXX3EDT4,0/0,J365/23");
    constexpr std::int64_t evening = 1830283200;  // 2027-12-31 20:00 UTC
    EXPECT_THAT(runs("30 23 * * *", all_year, evening, 2),
                ElementsAre(evening + 15 * hour / 2, evening + day + 15 * hour / 2));
    EXPECT_EQ(all_year.at(evening + day).offset, -14400);
}

TEST(TimeZone, RulesAreAsLibcReadsThem) {
    std::mt19937_64 random(1);
    std::string const before = ::getenv("TZ") ? ::getenv("TZ") : "";
    for (auto const* rule : {berlin, "EST5EDT,M3.2.0,M11.1.0", "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "JST-9",
                             "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "IST-1GMT0,M10.5.0,M3.5.0/1", "XXX3YYY,J60/0,J300",
                             "XXX-3YYY,59,299/5", "NZST-12NZDT,M9.5.0,M4.1.0/3", "EET-2EEST,M3.4.4/50,M10.4.4/50"}) {
        TimeZone const made = zone(rule);
        ::setenv("TZ", rule, 1);
        ::tzset();
        for (int i = 0; i < 5000; ++i) {
            auto const when = static_cast<std::time_t>(random() % 4102444800);  // to 2100
            std::tm local{};
            ::localtime_r(&when, &local);
            auto const span = made.at(when);
            ASSERT_EQ(span.offset, local.tm_gmtoff) << rule << " at " << when;
            ASSERT_TRUE(span.begin <= when && when < span.end) << rule << " at " << when;
        }
    }
    before.empty() ? ::unsetenv("TZ") : ::setenv("TZ", before.c_str(), 1);
    ::tzset();
}

TEST(TimeZone, NoPartOfAFileIsOne) {
    std::string const whole = file({-18000, -14400}, {{1000000, 1}, {2000000, 0}}, "EST5EDT,M3.2.0,M11.1.0");
    std::size_t const rule_begins = whole.rfind("\nEST");
    for (std::size_t size = 0; size < rule_begins; ++size)
        EXPECT_FALSE(TimeZone::parse(whole.substr(0, size))) << size;
    std::mt19937 random(2);
    for (int i = 0; i < 20000; ++i) {
        std::string broken = whole;
        for (int byte = 0; byte < 3; ++byte)
            broken[random() % broken.size()] = static_cast<char>(random());
        auto const made = TimeZone::parse(broken);
        if (made) (void)next_after(*parse_cron("30 2 * * *"), *made, spring);
    }
    EXPECT_FALSE(TimeZone::parse(std::string(most_zone_bytes + 1, 'x')));
}

TEST(TimeZone, BadRulesAreRefused) {
    for (auto const* rule : {"CE-1", "CET", "CET-1CEST", "CET-1CEST,M13.1.0,M1.1.0", "CET-1CEST,M3.6.0,M1.1.0",
                             "CET-1CEST,M3.5.7,M1.1.0", "CET-1CEST,M3.5.0", "CET-1CEST,J0,J1", "CET-1CEST,366,1",
                             "CET-1CEST,M3.5.0,M10.5.0/3x", "<CET-1", "CET-25", "CET-1CEST,M3.5.0/168,M10.5.0"})
        EXPECT_FALSE(TimeZone::parse(file({0}, {}, rule))) << rule;
}

TEST(TimeZone, Names) {
    for (auto const* name : {"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+3"})
        EXPECT_TRUE(is_time_zone_name(name)) << name;
    for (auto const* name : {"", "/etc/passwd", "../x", "a/../b", "a//b", "a/", ".", "Europe/Berlin ", "a\nb"})
        EXPECT_FALSE(is_time_zone_name(name)) << name;
    EXPECT_FALSE(is_time_zone_name(std::string(65, 'a')));
}

}  // namespace
}  // namespace triton::config
