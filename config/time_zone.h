#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/cron.h"

namespace triton::config {

inline constexpr std::size_t most_zone_bytes = 64 << 10;

/// Whether a text can name a time zone: "Europe/Berlin". As a path it stays inside the database's directory.
bool is_time_zone_name(std::string_view name);

/// A rule of POSIX for one change of the clock a year. Source: POSIX.1-2024, 8.3 "TZ"; RFC 9636, 3.3.
struct YearlyChange {
    enum class Day : std::uint8_t {
        julian,    ///< Jn: 1 to 365, 29 February is never counted
        of_year,   ///< n: 0 to 365
        of_month,  ///< Mm.w.d: day of the week `day` in week `week` (5: the last) of `month`
    };
    Day kind = Day::of_month;
    unsigned month = 1;
    unsigned week = 1;
    unsigned day = 0;
    std::int32_t time = 7200;  ///< seconds after midnight by the clock before the change; -167 h to 167 h

    bool operator==(YearlyChange const&) const = default;
};

/// The clock of a place: its offset from UTC, and when that changes.
class TimeZone {
public:
    /// Reads a file of the database (TZif, versions 1 to 4). Source: RFC 9636.
    /// Errors: what is wrong, ready to be shown, including a size of more than most_zone_bytes.
    static std::expected<TimeZone, std::string> parse(std::string_view bytes);

    /// A time with one and the same offset: from `begin` to before `end`, in seconds since 1970.
    struct Span {
        std::int64_t begin = INT64_MIN;
        std::int64_t end = INT64_MAX;
        std::int32_t offset = 0;         ///< local time less UTC
        std::int32_t offset_before = 0;  ///< of the span before it; of the first its own
    };
    [[nodiscard]] Span at(std::int64_t unix_seconds) const;

    bool operator==(TimeZone const&) const = default;

private:
    struct Change {
        std::int64_t at = 0;
        std::int32_t offset = 0;
        bool operator==(Change const&) const = default;
    };
    struct Rule {
        std::int32_t standard = 0;  // offsets
        std::int32_t summer = 0;
        std::optional<YearlyChange> begin;  // of summer time; without: never
        std::optional<YearlyChange> end;
        bool operator==(Rule const&) const = default;
    };
    static std::expected<Rule, std::string> parse_rule(std::string_view text);
    [[nodiscard]] Span by_file(std::int64_t unix_seconds) const;
    [[nodiscard]] Span by_rule(std::int64_t unix_seconds) const;

    std::int32_t first_offset_ = 0;
    std::vector<Change> changes_;  // sorted
    std::optional<Rule> rule_;
    std::int64_t rule_from_ = INT64_MIN;  // the last time in the file, even if nothing changes then
};

/// next_after() by the clock of a place. A time that a change of the clock leaves out is right after the change; one
/// that it repeats is its first occurrence. An expression that has every hour follows the time that passes instead.
std::optional<std::int64_t> next_after(CronExpression const& expression, TimeZone const& zone,
                                       std::int64_t unix_seconds);

}  // namespace triton::config
