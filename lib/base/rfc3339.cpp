#include "lib/base/rfc3339.h"

#include <chrono>

namespace triton {

namespace {

// gmtime_r() and strftime() would link time zones, scanf() and all floating point conversion into a static program.

constexpr std::size_t length_of_second = 20;
constexpr std::int64_t first_second = -62'167'219'200;  // of the year 0
constexpr std::int64_t last_second = 253'402'300'799;   // of the year 9999

void put_digits(char* last, std::uint64_t value, int count) {
    for (; count > 0; --count, value /= 10)
        *last-- = static_cast<char>('0' + value % 10);
}

/// Writes the first 19 characters: everything up to the second, without the zone.
void put_second(char* text, std::int64_t unix_seconds) {
    using namespace std::chrono;
    if (unix_seconds < first_second || unix_seconds > last_second) unix_seconds = 0;
    sys_seconds const time{seconds(unix_seconds)};
    sys_days const day = floor<days>(time);
    year_month_day const date = day;
    auto const second = static_cast<std::uint64_t>((time - day).count());
    put_digits(text + 3, static_cast<std::uint64_t>(int{date.year()}), 4);
    put_digits(text + 6, unsigned{date.month()}, 2);
    put_digits(text + 9, unsigned{date.day()}, 2);
    put_digits(text + 12, second / 3600, 2);
    put_digits(text + 15, second / 60 % 60, 2);
    put_digits(text + 18, second % 60, 2);
    text[4] = text[7] = '-';
    text[10] = 'T';
    text[13] = text[16] = ':';
}

}  // namespace

std::string rfc3339(std::int64_t unix_seconds) {
    std::string text(length_of_second, 'Z');
    put_second(text.data(), unix_seconds);
    return text;
}

std::string_view TimeText::at(std::int64_t microseconds) {
    constexpr std::int64_t million = 1'000'000;
    std::int64_t const rest =
        (microseconds % million + million) % million;  // not negative for a time before 1970 either
    std::int64_t const second = (microseconds - rest) / million;
    if (second != second_) {
        second_ = second;
        put_second(text_.data(), second);
        text_[length_of_second - 1] = '.';
        text_.back() = 'Z';
    }
    put_digits(&text_[length - 2], static_cast<std::uint64_t>(rest), 6);
    return {text_.data(), text_.size()};
}

}  // namespace triton
