#include "config/cron.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <span>

#include "lib/json/text.h"

namespace triton::config {

namespace {

using namespace std::chrono;

constexpr std::array<std::string_view, 12> month_names{"jan", "feb", "mar", "apr", "may", "jun",
                                                       "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> day_names{"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

struct FieldRow {
    std::string_view name;
    unsigned lowest;
    unsigned highest;
    std::span<std::string_view const> names;  // of the values from `lowest` on
};
constexpr std::array<FieldRow, 5> field_rows{{{"minute", 0, 59, {}},
                                              {"hour", 0, 23, {}},
                                              {"day of the month", 1, 31, {}},
                                              {"month", 1, 12, month_names},
                                              {"day of the week", 0, 7, day_names}}};

struct Nickname {
    std::string_view name;
    std::string_view fields;
};
constexpr std::array<Nickname, 7> nicknames{{{"@yearly", "0 0 1 1 *"},
                                             {"@annually", "0 0 1 1 *"},
                                             {"@monthly", "0 0 1 * *"},
                                             {"@weekly", "0 0 * * 0"},
                                             {"@daily", "0 0 * * *"},
                                             {"@midnight", "0 0 * * *"},
                                             {"@hourly", "0 * * * *"}}};

using CronFault = std::unexpected<std::string>;

bool are_letters(std::string_view text, std::string_view lower) {
    auto const same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
    return std::ranges::equal(text, lower, same);
}

std::optional<unsigned> parse_number(std::string_view text) {
    unsigned number = 0;
    char const* const last = text.data() + text.size();
    auto const [end, error] = std::from_chars(text.data(), last, number);
    if (error != std::errc{} || end != last) return std::nullopt;
    return number;
}

std::expected<unsigned, std::string> parse_field_value(std::string_view text, FieldRow const& field) {
    for (std::size_t i = 0; i < field.names.size(); ++i) {
        if (are_letters(text, field.names[i])) return field.lowest + static_cast<unsigned>(i);
    }
    auto const number = parse_number(text);
    if (!number)
        return CronFault(json::shown(text) +
                         (field.names.empty() ? " is not a number" : " is neither a number nor a name"));
    if (*number >= field.lowest && *number <= field.highest) return *number;
    return CronFault(std::to_string(*number) + " is not within " + std::to_string(field.lowest) + " to " +
                     std::to_string(field.highest));
}

/// The values of one part of a list, as bits: "*", "3", "1-5", "1-10/2".
std::expected<std::uint64_t, std::string> parse_part(std::string_view text, FieldRow const& field) {
    std::size_t const slash = text.find('/');
    std::string_view const range = text.substr(0, slash);
    unsigned first = field.lowest;
    unsigned last = field.highest;
    bool const is_all = range == "*";
    std::size_t const dash = range.find('-');
    if (!is_all) {
        auto const begin = parse_field_value(range.substr(0, dash), field);
        if (!begin) return CronFault(begin.error());
        auto const end = dash == std::string_view::npos ? begin : parse_field_value(range.substr(dash + 1), field);
        if (!end) return CronFault(end.error());
        if (*begin > *end) return CronFault(json::shown(range) + " runs backwards");
        first = *begin;
        last = *end;
    }
    unsigned step = 1;
    if (slash != std::string_view::npos) {
        if (!is_all && dash == std::string_view::npos) return CronFault(json::shown(text) + " has a step but no range");
        auto const number = parse_number(text.substr(slash + 1));
        if (!number || *number == 0 || *number > field.highest)
            return CronFault(json::shown(text.substr(slash + 1)) + " is not a step from 1 to " +
                             std::to_string(field.highest));
        step = *number;
    }
    std::uint64_t bits = 0;
    for (unsigned value = first; value <= last; value += step)
        bits |= std::uint64_t{1} << value;
    return bits;
}

std::expected<std::uint64_t, std::string> parse_field(std::string_view text, FieldRow const& field) {
    std::uint64_t bits = 0;
    while (true) {
        std::size_t const comma = text.find(',');
        auto const part = parse_part(text.substr(0, comma), field);
        if (!part) return CronFault(std::string(field.name) + ": " + part.error());
        bits |= *part;
        if (comma == std::string_view::npos) return bits;
        text.remove_prefix(comma + 1);
    }
}

std::string_view take_word(std::string_view& text) {
    constexpr std::string_view blanks = " \t";
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    std::string_view const word = text.substr(0, text.find_first_of(blanks));
    text.remove_prefix(word.size());
    return word;
}

/// Whether some month of the set has one of the days. (29 February counts, since it does come.)
bool has_a_date(CronExpression const& expression) {
    static constexpr std::array<unsigned, 13> longest{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    auto const first_day = static_cast<unsigned>(std::countr_zero(expression.days_of_month));
    for (unsigned month = 1; month <= 12; ++month) {
        if ((expression.months >> month & 1U) != 0 && first_day <= longest[month]) return true;
    }
    return false;
}

bool matches_day(CronExpression const& expression, year_month_day const& date, weekday day) {
    bool const in_month = (expression.days_of_month >> static_cast<unsigned>(date.day()) & 1U) != 0;
    bool const in_week = (static_cast<unsigned>(expression.days_of_week) >> day.c_encoding() & 1U) != 0;
    return expression.is_either_day ? in_month || in_week : in_month && in_week;
}

/// The first value of the set from `from` on.
template <class Bits>
std::optional<unsigned> first_from(Bits bits, unsigned from) {
    std::uint64_t const rest = from < 64 ? std::uint64_t{bits} >> from << from : 0;
    if (rest == 0) return std::nullopt;
    return static_cast<unsigned>(std::countr_zero(rest));
}

/// The first time of a day in the set at or after a minute of that day.
std::optional<minutes> time_of_day(CronExpression const& expression, minutes from) {
    auto const hour = static_cast<unsigned>(from.count() / 60);
    auto const minute = static_cast<unsigned>(from.count() % 60);
    if ((expression.hours >> hour & 1U) != 0) {
        if (auto const found = first_from(expression.minutes, minute)) return hours(hour) + minutes(*found);
    }
    auto const later = first_from(expression.hours, hour + 1);
    auto const first = first_from(expression.minutes, 0);
    if (!later || !first) return std::nullopt;
    return hours(*later) + minutes(*first);
}

}  // namespace

std::expected<CronExpression, std::string> parse_cron(std::string_view text) {
    if (text.starts_with('@')) {
        auto const row = std::ranges::find(nicknames, text, &Nickname::name);
        if (row == nicknames.end())
            return CronFault("is not one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually");
        text = row->fields;
    }
    std::array<std::string_view, field_rows.size()> words;
    for (std::string_view& word : words)
        word = take_word(text);
    if (words.back().empty() || !take_word(text).empty())
        return CronFault("needs five fields: minute, hour, day of the month, month, day of the week");
    std::array<std::uint64_t, field_rows.size()> bits{};
    for (std::size_t i = 0; i < words.size(); ++i) {
        auto const field = parse_field(words[i], field_rows[i]);
        if (!field) return CronFault(field.error());
        bits[i] = *field;
    }
    std::uint64_t const week = (bits[4] | bits[4] >> 7) & 0x7fU;  // both 7 and 0 are Sunday
    CronExpression const expression{.minutes = bits[0],
                                    .hours = static_cast<std::uint32_t>(bits[1]),
                                    .days_of_month = static_cast<std::uint32_t>(bits[2]),
                                    .months = static_cast<std::uint16_t>(bits[3]),
                                    .days_of_week = static_cast<std::uint8_t>(week),
                                    .is_either_day = !words[2].starts_with('*') && !words[4].starts_with('*')};
    if (!expression.is_either_day && !has_a_date(expression)) return CronFault("there is no such date");
    return expression;
}

std::optional<std::int64_t> next_after(CronExpression const& expression, std::int64_t unix_seconds) {
    constexpr sys_days first_day = year{1} / January / 1;
    constexpr sys_days last_day = year{9999} / December / 31;
    // The days of the week repeat after 28 years, or 40 with a century between them that has no leap day.
    constexpr days furthest{40 * 366};
    if (unix_seconds < sys_seconds(first_day).time_since_epoch().count() ||
        unix_seconds >= sys_seconds(last_day).time_since_epoch().count()) {
        return std::nullopt;
    }
    auto const start = floor<minutes>(sys_seconds(seconds(unix_seconds))) + minutes(1);
    sys_days const start_day = floor<days>(start);
    minutes from = start - start_day;
    for (sys_days day = start_day; day <= last_day && day - start_day <= furthest; day += days(1)) {
        year_month_day const date(day);
        bool const in_months = (expression.months >> static_cast<unsigned>(date.month()) & 1U) != 0;
        if (in_months && matches_day(expression, date, weekday(day))) {
            if (auto const time = time_of_day(expression, from))
                return sys_seconds(day + *time).time_since_epoch().count();
        }
        from = minutes(0);
    }
    return std::nullopt;
}

}  // namespace triton::config
