#include "config/cron.h"

#include <cstdio>
#include <ctime>
#include <optional>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace triton::config {
namespace {

std::int64_t at(std::string const& text) {
    std::tm time{};
    EXPECT_TRUE(::strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &time)) << text;
    return ::timegm(&time);
}

std::string text_of(std::optional<std::int64_t> seconds) {
    if (!seconds) return "never";
    std::time_t const time = *seconds;
    std::tm fields{};
    ::gmtime_r(&time, &fields);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &fields);
    return text;
}

struct Due {
    std::string expression;
    std::string after;
    std::string next;
};

void PrintTo(Due const& row, std::ostream* out) { *out << row.expression << " after " << row.after; }

class NextAfter : public testing::TestWithParam<Due> {};

TEST_P(NextAfter, Is) {
    auto const expression = parse_cron(GetParam().expression);
    ASSERT_TRUE(expression) << expression.error();
    EXPECT_EQ(text_of(next_after(*expression, at(GetParam().after))), GetParam().next);
}

// 2026-01-01 is a Thursday; 2028 is a leap year; 2100 is none.
INSTANTIATE_TEST_SUITE_P(
    Cron, NextAfter,
    testing::Values(
        Due{"* * * * *", "2026-01-01 00:00:00", "2026-01-01 00:01:00"},
        Due{"* * * * *", "2026-01-01 00:00:59", "2026-01-01 00:01:00"},
        Due{"* * * * *", "2026-12-31 23:59:00", "2027-01-01 00:00:00"},
        Due{"*/5 * * * *", "2026-01-01 00:00:00", "2026-01-01 00:05:00"},
        Due{"*/5 * * * *", "2026-01-01 00:55:01", "2026-01-01 01:00:00"},
        Due{"7-20/6 * * * *", "2026-01-01 00:19:00", "2026-01-01 01:07:00"},
        Due{"1,30,59 22 * * *", "2026-01-01 22:30:00", "2026-01-01 22:59:00"},
        Due{"1,30,59 22 * * *", "2026-01-01 22:59:00", "2026-01-02 22:01:00"},
        Due{"0 0 31 * *", "2026-02-01 00:00:00", "2026-03-31 00:00:00"},
        Due{"0 0 29 2 *", "2026-01-01 00:00:00", "2028-02-29 00:00:00"},
        Due{"0 0 29 2 *", "2096-02-29 00:00:00", "2104-02-29 00:00:00"},
        Due{"0 12 29 feb */7", "2088-02-29 12:00:00", "2128-02-29 12:00:00"},  // a Sunday, the longest wait there is
        Due{"30 4 * * mon-FRI", "2026-01-02 04:30:00", "2026-01-05 04:30:00"},
        Due{"30 4 * * 7", "2026-01-01 00:00:00", "2026-01-04 04:30:00"},
        Due{"30 4 * * 5-7", "2026-01-03 05:00:00", "2026-01-04 04:30:00"},
        Due{"0 0 13 * 5", "2026-01-01 00:00:00", "2026-01-02 00:00:00"},  // a Friday, or the 13th
        Due{"0 0 13 * 5", "2026-01-09 00:00:00", "2026-01-13 00:00:00"},
        Due{"0 0 13 * */5", "2026-01-01 00:00:00", "2026-02-13 00:00:00"},  // both, as the field begins with *
        Due{"0 0 */2 * 5", "2026-01-01 00:00:00", "2026-01-09 00:00:00"},
        Due{"0 0 30 2 1", "2026-01-01 00:00:00", "2026-02-02 00:00:00"},  // there is no 30 February, but Mondays
        Due{"0 6 1 jan,Jul *", "2026-01-01 06:00:00", "2026-07-01 06:00:00"},
        Due{"  0\t6  * * *  ", "2026-01-01 00:00:00", "2026-01-01 06:00:00"},
        Due{"@hourly", "2026-01-01 00:30:00", "2026-01-01 01:00:00"},
        Due{"@daily", "2026-01-01 00:00:00", "2026-01-02 00:00:00"},
        Due{"@midnight", "2026-01-01 00:00:00", "2026-01-02 00:00:00"},
        Due{"@weekly", "2026-01-01 00:00:00", "2026-01-04 00:00:00"},
        Due{"@monthly", "2026-01-01 00:00:00", "2026-02-01 00:00:00"},
        Due{"@yearly", "2026-01-01 00:00:00", "2027-01-01 00:00:00"},
        Due{"@annually", "2026-06-01 00:00:00", "2027-01-01 00:00:00"},
        Due{"59 23 31 12 *", "1969-12-31 23:58:30", "1969-12-31 23:59:00"},
        Due{"0 0 1 1 *", "9999-01-01 00:00:00", "never"}));

TEST(NextAfter, NeverOutsideTheCalendar) {
    CronExpression const every_minute = *parse_cron("* * * * *");
    EXPECT_EQ(next_after(every_minute, INT64_MAX), std::nullopt);
    EXPECT_EQ(next_after(every_minute, INT64_MIN), std::nullopt);
    EXPECT_EQ(next_after(CronExpression{}, 0), std::nullopt);
}

/// The definition, minute by minute.
bool is_due(CronExpression const& expression, std::int64_t seconds) {
    std::time_t const time = seconds;
    std::tm fields{};
    ::gmtime_r(&time, &fields);
    auto const has = [](auto bits, int value) { return (std::uint64_t{bits} >> value & 1U) != 0; };
    bool const in_month = has(expression.days_of_month, fields.tm_mday);
    bool const in_week = has(expression.days_of_week, fields.tm_wday);
    return has(expression.minutes, fields.tm_min) && has(expression.hours, fields.tm_hour) &&
           has(expression.months, fields.tm_mon + 1) &&
           (expression.is_either_day ? in_month || in_week : in_month && in_week);
}

TEST(NextAfter, IsTheFirstMinuteThatMatches) {
    std::mt19937 random(1);
    auto const field = [&random](unsigned low, unsigned high) -> std::string {
        auto const a = low + random() % (high - low + 1);
        switch (random() % 4) {
            case 0: return "*";
            case 1: return "*/" + std::to_string(1 + random() % high);
            case 2: return std::to_string(a) + "-" + std::to_string(high);
            default: return std::to_string(a);
        }
    };
    for (int round = 0; round < 300; ++round) {
        std::string const text = field(0, 59) + " " + field(0, 23) + " " + field(1, 28) + " * " + field(0, 7);
        auto const expression = parse_cron(text);
        ASSERT_TRUE(expression) << text << ": " << expression.error();
        std::int64_t const start = at("2024-02-01 00:00:00") + static_cast<std::int64_t>(random() % 100'000'000);
        auto const next = next_after(*expression, start);
        std::int64_t minute = start / 60 * 60 + 60;
        std::int64_t const end = minute + 40 * 86400;
        while (minute < end && !is_due(*expression, minute))
            minute += 60;
        if (minute < end) {
            EXPECT_EQ(text_of(next), text_of(minute)) << text << " after " << text_of(start);
        } else {
            EXPECT_GE(next.value_or(end), end) << text << " after " << text_of(start);
        }
    }
}

struct Faulty {
    std::string text;
    std::string error;
};

void PrintTo(Faulty const& row, std::ostream* out) { *out << row.text; }

class ParseCron : public testing::TestWithParam<Faulty> {};

TEST_P(ParseCron, Refuses) {
    auto const expression = parse_cron(GetParam().text);
    ASSERT_FALSE(expression);
    EXPECT_EQ(expression.error(), GetParam().error);
}

constexpr char const* five_fields = "needs five fields: minute, hour, day of the month, month, day of the week";
constexpr char const* nicknames = "is not one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually";

INSTANTIATE_TEST_SUITE_P(
    Texts, ParseCron,
    testing::Values(Faulty{"", five_fields}, Faulty{"* * * *", five_fields}, Faulty{"* * * * * *", five_fields},
                    Faulty{"@reboot", nicknames}, Faulty{"@Daily", nicknames},
                    Faulty{"60 * * * *", "minute: 60 is not within 0 to 59"},
                    Faulty{"* 24 * * *", "hour: 24 is not within 0 to 23"},
                    Faulty{"* * 0 * *", "day of the month: 0 is not within 1 to 31"},
                    Faulty{"* * * 13 *", "month: 13 is not within 1 to 12"},
                    Faulty{"* * * * 8", "day of the week: 8 is not within 0 to 7"},
                    Faulty{"* * * january *", "month: january is neither a number nor a name"},
                    Faulty{"mon * * * *", "minute: mon is not a number"},
                    Faulty{"-1 * * * *", "minute: \"\" is not a number"},
                    Faulty{"1,,2 * * * *", "minute: \"\" is not a number"},
                    Faulty{"20-10 * * * *", "minute: 20-10 runs backwards"},
                    Faulty{"* * * * sat-sun", "day of the week: sat-sun runs backwards"},
                    Faulty{"*/0 * * * *", "minute: 0 is not a step from 1 to 59"},
                    Faulty{"*/x * * * *", "minute: x is not a step from 1 to 59"},
                    Faulty{"*/99999999999 * * * *", "minute: 99999999999 is not a step from 1 to 59"},
                    Faulty{"5/10 * * * *", "minute: 5/10 has a step but no range"},
                    Faulty{"99999999999 * * * *", "minute: 99999999999 is not a number"},
                    Faulty{"0 0 30 2 *", "there is no such date"}, Faulty{"0 0 31 4,6,9,11 *", "there is no such date"},
                    Faulty{"0 0 31 feb */2", "there is no such date"}));

}  // namespace
}  // namespace triton::config
