#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace triton::config {

/// When a scheduled program is due: a set of minutes, in UTC. One bit for each value that a field matches.
struct CronExpression {
    std::uint64_t minutes = 0;        ///< bits 0 to 59
    std::uint32_t hours = 0;          ///< bits 0 to 23
    std::uint32_t days_of_month = 0;  ///< bits 1 to 31
    std::uint16_t months = 0;         ///< bits 1 to 12
    std::uint8_t days_of_week = 0;    ///< bits 0 (Sunday) to 6
    /// Both kinds of day are restricted (neither field begins with *): a day that matches one of them is enough.
    bool is_either_day = false;

    bool operator==(CronExpression const&) const = default;
};

/// Reads five fields, "minute hour day-of-month month day-of-week", or @yearly (@annually), @monthly, @weekly, @daily
/// (@midnight), @hourly. A field is a list (,) of *, a value or a range (a-b), the last two kinds and * with a step
/// (/n). Months and days of the week may be named (jan, MON); day of the week 7 is Sunday too. When neither field of
/// the day begins with *, one of them is enough. Source: crontab(5) of cron in Debian.
/// Errors: what is wrong, ready to be shown: "minute: 61 is not within 0 to 59". A date that never comes (30 February)
/// is one.
std::expected<CronExpression, std::string> parse_cron(std::string_view text);

/// The first due time after `unix_seconds`, in seconds since 1970 UTC, always at the start of a minute. Pure.
/// Returns: nullopt when there is none within the next 40 years or `unix_seconds` is beyond the calendar (the years
/// 1 to 9999). What parse_cron() has accepted is due within 40 years: at worst a 29 February that is a Sunday.
std::optional<std::int64_t> next_after(CronExpression const& expression, std::int64_t unix_seconds);

}  // namespace triton::config
