#include "config/time_zone.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>

namespace triton::config {

namespace {

using namespace std::chrono;
using ZoneFault = std::unexpected<std::string>;

constexpr std::size_t longest_name = 64;
constexpr std::int64_t seconds_of_day = 86400;
constexpr std::int64_t earliest = -(std::int64_t{1} << 40);  // some 35,000 years: sums with offsets stay within 64 bits
constexpr std::int64_t latest = std::int64_t{1} << 40;
constexpr std::int32_t most_offset = 26 * 3600;

/// Reads the bytes of a file from the front. Missing bytes make it unreadable.
class Bytes {
public:
    explicit Bytes(std::string_view rest) : rest_(rest) {}

    std::string_view take(std::size_t size) {
        if (size > rest_.size()) {
            is_good_ = false;
            return {};
        }
        std::string_view const bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return bytes;
    }
    std::int64_t number(std::size_t size) {  // big-endian, two's complement
        std::string_view const bytes = take(size);
        if (bytes.empty()) return 0;
        std::uint64_t value = (static_cast<unsigned char>(bytes.front()) & 0x80U) != 0 ? ~std::uint64_t{0} : 0;
        for (char const byte : bytes)
            value = value << 8 | static_cast<unsigned char>(byte);
        return static_cast<std::int64_t>(value);
    }
    [[nodiscard]] bool is_good() const { return is_good_; }
    [[nodiscard]] std::string_view rest() const { return rest_; }

private:
    std::string_view rest_;
    bool is_good_ = true;
};

struct Header {
    char version = 0;
    std::size_t ut = 0, standard = 0, leaps = 0, times = 0, types = 0, letters = 0;
};

std::optional<Header> read_header(Bytes& in) {
    if (in.take(4) != "TZif") return std::nullopt;
    Header header;
    std::string_view const version = in.take(1);
    if (!version.empty()) header.version = version.front();
    (void)in.take(15);
    for (std::size_t* const count :
         {&header.ut, &header.standard, &header.leaps, &header.times, &header.types, &header.letters}) {
        std::int64_t const number = in.number(4);
        if (number < 0 || number > static_cast<std::int64_t>(most_zone_bytes)) return std::nullopt;
        *count = static_cast<std::size_t>(number);
    }
    return in.is_good() ? std::optional(header) : std::nullopt;
}

std::size_t size_of(Header const& header, std::size_t time_size) {
    return header.times * (time_size + 1) + header.types * 6 + header.letters + header.leaps * (time_size + 4) +
           header.standard + header.ut;
}

// The rule at the end of a file, "CET-1CEST,M3.5.0,M10.5.0/3", and its parts. Each takes what it understands from the
// front.

bool take_text(std::string_view& text, char wanted) {
    if (!text.starts_with(wanted)) return false;
    text.remove_prefix(1);
    return true;
}

std::optional<int> take_value(std::string_view& text, int highest) {
    int value = 0;
    std::size_t digits = 0;
    while (digits < text.size() && digits < 4 && text[digits] >= '0' && text[digits] <= '9')
        value = value * 10 + (text[digits++] - '0');
    if (digits == 0 || value > highest) return std::nullopt;
    text.remove_prefix(digits);
    return value;
}

/// Takes an abbreviation: letters, or anything in <>.
bool take_abbreviation(std::string_view& text) {
    if (take_text(text, '<')) {
        std::size_t const end = text.find('>');
        if (end == std::string_view::npos || end == 0) return false;
        text.remove_prefix(end + 1);
        return true;
    }
    std::size_t length = 0;
    while (length < text.size() &&
           ((text[length] >= 'A' && text[length] <= 'Z') || (text[length] >= 'a' && text[length] <= 'z')))
        ++length;
    text.remove_prefix(length);
    return length >= 3;
}

/// Takes [+-]hh[:mm[:ss]].
std::optional<std::int32_t> take_time(std::string_view& text, int most_hours) {
    bool const is_negative = take_text(text, '-');
    if (!is_negative) (void)take_text(text, '+');
    auto const hours_ = take_value(text, most_hours);
    if (!hours_) return std::nullopt;
    std::int32_t time = *hours_ * 3600;
    for (std::int32_t const unit : {60, 1}) {
        if (!take_text(text, ':')) break;
        auto const part = take_value(text, 59);
        if (!part) return std::nullopt;
        time += *part * unit;
    }
    return is_negative ? -time : time;
}

std::optional<YearlyChange> take_change(std::string_view& text) {
    YearlyChange change;
    if (!take_text(text, ',')) return std::nullopt;
    if (take_text(text, 'M')) {
        auto const month = take_value(text, 12);
        bool const has_week = take_text(text, '.');
        auto const week = take_value(text, 5);
        bool const has_day = take_text(text, '.');
        auto const day_ = take_value(text, 6);
        if (!month || *month < 1 || !has_week || !week || *week < 1 || !has_day || !day_) return std::nullopt;
        change.month = static_cast<unsigned>(*month);
        change.week = static_cast<unsigned>(*week);
        change.day = static_cast<unsigned>(*day_);
    } else {
        bool const is_julian = take_text(text, 'J');
        auto const day_ = take_value(text, 365);
        if (!day_ || (is_julian && *day_ == 0)) return std::nullopt;
        change.kind = is_julian ? YearlyChange::Day::julian : YearlyChange::Day::of_year;
        change.day = static_cast<unsigned>(*day_);
    }
    if (!take_text(text, '/')) return change;
    auto const time = take_time(text, 167);
    if (!time) return std::nullopt;
    change.time = *time;
    return change;
}

/// The time of the change in that year, in seconds since 1970 by the clock before the change.
std::int64_t local_time_of(YearlyChange const& change, year of) {
    sys_days date;
    switch (change.kind) {
        case YearlyChange::Day::julian: {
            date = sys_days(of / January / 1) + days(change.day - 1);
            if (of.is_leap() && change.day >= 60) date += days(1);
            break;
        }
        case YearlyChange::Day::of_year: date = sys_days(of / January / 1) + days(change.day); break;
        case YearlyChange::Day::of_month: {
            auto const in_month = of / month(change.month);
            weekday const wanted(change.day);
            date = change.week == 5 ? sys_days(in_month / wanted[last]) : sys_days(in_month / wanted[change.week]);
            break;
        }
    }
    return date.time_since_epoch().count() * seconds_of_day + change.time;
}

year year_of(std::int64_t unix_seconds) {
    sys_days const day = floor<days>(sys_seconds(seconds(unix_seconds)));
    return year_month_day(day).year();
}

bool has_every_hour(CronExpression const& expression) { return expression.hours == (1U << 24U) - 1; }

}  // namespace

bool is_time_zone_name(std::string_view name) {
    if (name.empty() || name.size() > longest_name || name.front() == '/' || name.back() == '/') return false;
    if (name.contains("//")) return false;
    return std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '+' ||
               c == '-' || c == '/';
    });
}

std::expected<TimeZone::Rule, std::string> TimeZone::parse_rule(std::string_view text) {
    ZoneFault const fault("its rule " + std::string(text.substr(0, 64)) + " is not one of POSIX");
    Rule rule;
    // POSIX counts offsets west of Greenwich.
    if (!take_abbreviation(text)) return fault;
    auto const standard = take_time(text, 24);
    if (!standard) return fault;
    rule.standard = rule.summer = -*standard;
    if (text.empty()) return rule;
    if (!take_abbreviation(text)) return fault;
    rule.summer = rule.standard + 3600;
    if (!text.starts_with(',')) {
        auto const summer = take_time(text, 24);
        if (!summer) return fault;
        rule.summer = -*summer;
    }
    rule.begin = take_change(text);
    rule.end = take_change(text);
    if (!rule.begin || !rule.end || !text.empty()) return fault;
    return rule;
}

std::expected<TimeZone, std::string> TimeZone::parse(std::string_view bytes) {
    if (bytes.size() > most_zone_bytes)
        return ZoneFault("it has more than " + std::to_string(most_zone_bytes) + " bytes");
    Bytes in(bytes);
    auto header = read_header(in);
    if (!header) return ZoneFault("it is not a TZif file");
    std::size_t time_size = 4;
    if (header->version >= '2') {  // the same follows again, with 64 bits for a time
        (void)in.take(size_of(*header, time_size));
        header = read_header(in);
        if (!header) return ZoneFault("it is not a whole TZif file");
        time_size = 8;
    }
    if (header->types == 0 || header->types > 256) return ZoneFault("it has no type of local time");
    Bytes times(in.take(header->times * time_size));
    std::string_view const indices = in.take(header->times);
    Bytes types(in.take(header->types * 6));
    (void)in.take(header->letters + header->leaps * (time_size + 4) + header->standard + header->ut);
    if (!in.is_good()) return ZoneFault("it is not a whole TZif file");

    std::vector<std::int32_t> offsets;
    for (std::size_t i = 0; i < header->types; ++i) {
        auto const offset = types.number(4);
        (void)types.take(2);
        if (offset < -most_offset || offset > most_offset) return ZoneFault("it has an offset of more than a day");
        offsets.push_back(static_cast<std::int32_t>(offset));
    }
    TimeZone zone;
    zone.first_offset_ = offsets.front();
    for (char const index : indices) {
        auto const at = std::clamp(times.number(time_size), earliest, latest);
        auto const type = static_cast<unsigned char>(index);
        if (type >= offsets.size()) return ZoneFault("it has a change to an unknown type");
        if (!zone.changes_.empty() && at < zone.changes_.back().at) return ZoneFault("its changes are not in order");
        std::int32_t const before = zone.changes_.empty() ? zone.first_offset_ : zone.changes_.back().offset;
        if (offsets[type] != before) zone.changes_.push_back({at, offsets[type]});
        zone.rule_from_ = at;
    }
    std::string_view footer = in.rest();
    if (time_size == 8 && take_text(footer, '\n')) {
        footer = footer.substr(0, footer.find('\n'));
        if (!footer.empty()) {
            auto rule = parse_rule(footer);
            if (!rule) return ZoneFault(rule.error());
            zone.rule_ = *rule;
        }
    }
    return zone;
}

TimeZone::Span TimeZone::by_file(std::int64_t unix_seconds) const {
    auto const next = std::ranges::upper_bound(changes_, unix_seconds, {}, &Change::at);
    Span span;
    if (next != changes_.end()) span.end = next->at;
    span.offset = span.offset_before = first_offset_;
    if (next == changes_.begin()) return span;
    auto const last_change = next - 1;
    span.begin = last_change->at;
    span.offset = last_change->offset;
    span.offset_before = last_change == changes_.begin() ? first_offset_ : (last_change - 1)->offset;
    return span;
}

/// The span of a time by the rule, found among the changes of the years around it. It may have begun in the file.
TimeZone::Span TimeZone::by_rule(std::int64_t unix_seconds) const {
    Rule const& rule = *rule_;
    bool const has_file = rule_from_ != INT64_MIN;
    Span const in_file = by_file(unix_seconds);
    Span span = has_file ? in_file : Span{.offset = rule.standard, .offset_before = rule.standard};
    span.end = INT64_MAX;
    std::array<Change, 6> around{};
    std::size_t count = 0;
    if (rule.begin && rule.end) {
        for (int ahead = -1; ahead <= 1; ++ahead) {
            year const of = year_of(unix_seconds) + years(ahead);
            around[count++] = {local_time_of(*rule.begin, of) - rule.standard, rule.summer};
            around[count++] = {local_time_of(*rule.end, of) - rule.summer, rule.standard};
        }
    } else {
        span.offset = rule.standard;
    }
    std::span<Change> const changes(around.data(), count);
    std::ranges::stable_sort(changes, {}, &Change::at);
    for (std::size_t i = 0; i < changes.size(); ++i) {
        Change const& change = changes[i];
        // Where summer time lasts all the year, it ends and begins at the same moment.
        bool const is_undone = i + 1 < changes.size() && changes[i + 1].at == change.at;
        if (is_undone || change.offset == span.offset) continue;
        if (change.at > unix_seconds) {
            span.end = change.at;
            break;
        }
        if (change.at > rule_from_) {  // before that the file itself says what was valid when
            span.begin = change.at;
            span.offset_before = span.offset;
        }
        span.offset = change.offset;
    }
    if (has_file && span.begin == in_file.begin && span.offset != in_file.offset) {  // they contradict each other
        span.begin = rule_from_;
        span.offset_before = in_file.offset;
    }
    return span;
}

TimeZone::Span TimeZone::at(std::int64_t unix_seconds) const {
    unix_seconds = std::clamp(unix_seconds, earliest, latest);
    if (rule_ && unix_seconds >= rule_from_) return by_rule(unix_seconds);
    Span span = by_file(unix_seconds);
    if (rule_) span.end = std::min(span.end, rule_from_);
    return span;
}

std::optional<std::int64_t> next_after(CronExpression const& expression, TimeZone const& zone,
                                       std::int64_t unix_seconds) {
    constexpr int most_spans = 200;  // two changes a year, over 40 years, and some
    bool const is_by_clock = !has_every_hour(expression);
    std::int64_t from = unix_seconds;
    for (int spans = 0; spans < most_spans; ++spans) {
        TimeZone::Span const span = zone.at(from);
        std::int64_t local = from + span.offset;
        // The times that the clock shows for the second time have already passed.
        bool const shows_again = span.begin != INT64_MIN && span.offset < span.offset_before;
        if (is_by_clock && shows_again) local = std::max(local, span.begin + span.offset_before - 1);
        auto const due = next_after(expression, local);
        if (!due) return std::nullopt;
        if (span.end == INT64_MAX || *due - span.offset < span.end) return *due - span.offset;
        // There is no run in this span. A time that the clock leaves out at its end comes right after it.
        std::int32_t const offset_then = zone.at(span.end).offset;
        if (is_by_clock && *due < span.end + offset_then) return span.end;
        constexpr std::int64_t margin = 2 * seconds_of_day;  // no two offsets are further apart
        from = std::max(span.end, *due - margin);
        // Starts at the very beginning of the next span: next_after() returns a time after its argument.
        if (from == span.end) {
            TimeZone::Span const then = zone.at(from);
            std::int64_t first = from + then.offset;
            if (is_by_clock && then.begin != INT64_MIN && then.offset < then.offset_before)
                first = std::max(first, then.begin + then.offset_before);
            auto const in_it = next_after(expression, first - 1);
            if (in_it && (then.end == INT64_MAX || *in_it - then.offset < then.end)) return *in_it - then.offset;
        }
    }
    return std::nullopt;
}

}  // namespace triton::config
