#include "lib/base/duration.h"

#include <array>
#include <cstdint>
#include <limits>

#include "lib/base/digits.h"

namespace triton {

namespace {

struct Unit {
    std::string_view name;
    std::uint64_t nanoseconds;
};
constexpr std::array<Unit, 6> units{{{"h", 3'600'000'000'000},
                                     {"m", 60'000'000'000},
                                     {"s", 1'000'000'000},
                                     {"ms", 1'000'000},
                                     {"us", 1'000},
                                     {"ns", 1}}};
constexpr std::size_t seconds_row = 2;

std::string_view take_letters(std::string_view& text) {
    std::size_t length = 0;
    while (length < text.size() && !is_digit(text[length]) && text[length] != '.')
        ++length;
    std::string_view const letters = text.substr(0, length);
    text.remove_prefix(length);
    return letters;
}

/// Returns whole.fraction times unit; nullopt when that is beyond 64 bits. Anything below a nanosecond is cut off.
std::optional<std::uint64_t> scale(std::string_view whole, std::string_view fraction, std::uint64_t unit) {
    std::uint64_t sum = 0;
    for (char const c : whole) {
        if (__builtin_mul_overflow(sum, std::uint64_t{10}, &sum)) return std::nullopt;
        if (__builtin_add_overflow(sum, static_cast<std::uint64_t>(c - '0'), &sum)) return std::nullopt;
    }
    if (__builtin_mul_overflow(sum, unit, &sum)) return std::nullopt;
    for (char const c : fraction) {
        unit /= 10;
        if (__builtin_add_overflow(sum, unit * static_cast<std::uint64_t>(c - '0'), &sum)) return std::nullopt;
    }
    return sum;
}

/// The row of a unit's name, searched from `begin` on; past the end when there is none.
std::size_t find_unit(std::string_view name, std::size_t begin) {
    std::size_t row = begin;
    while (row < units.size() && units[row].name != name)
        ++row;
    return row;
}

void append_scaled(std::string& out, std::uint64_t amount, Unit const& unit) {
    out += std::to_string(amount / unit.nanoseconds);
    std::uint64_t rest = amount % unit.nanoseconds;
    if (rest != 0) out += '.';
    for (std::uint64_t place = unit.nanoseconds / 10; rest != 0; place /= 10) {
        out += static_cast<char>('0' + rest / place);
        rest %= place;
    }
    out += unit.name;
}

}  // namespace

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
    if (text.empty()) return std::nullopt;
    std::uint64_t total = 0;
    std::size_t next_row = 0;
    for (bool first = true; !text.empty(); first = false) {
        std::string_view const whole = take_digits(text);
        std::string_view fraction;
        if (text.starts_with('.')) {
            text.remove_prefix(1);
            fraction = take_digits(text);
            if (fraction.empty()) return std::nullopt;
        }
        std::string_view const unit = take_letters(text);
        bool const bare = unit.empty() && first && text.empty();
        std::size_t const row = bare ? seconds_row : find_unit(unit, next_row);
        if (whole.empty() || row == units.size()) return std::nullopt;
        std::optional<std::uint64_t> const part = scale(whole, fraction, units[row].nanoseconds);
        if (!part || __builtin_add_overflow(total, *part, &total)) return std::nullopt;
        next_row = row + 1;
    }
    if (total > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    return std::chrono::nanoseconds{static_cast<std::int64_t>(total)};
}

std::string format_duration(std::chrono::nanoseconds duration) {
    std::int64_t const count = duration.count();
    std::string out = count < 0 ? "-" : "";
    // negated as unsigned: the smallest 64-bit integer has no positive counterpart
    std::uint64_t left = count < 0 ? -static_cast<std::uint64_t>(count) : static_cast<std::uint64_t>(count);
    if (left == 0) return "0s";
    for (std::size_t row = 0; row < units.size() && left != 0; ++row) {
        if (left < units[row].nanoseconds) continue;
        if (row >= seconds_row) {
            append_scaled(out, left, units[row]);
            break;
        }
        out += std::to_string(left / units[row].nanoseconds).append(units[row].name);
        left %= units[row].nanoseconds;
    }
    return out;
}

}  // namespace triton
