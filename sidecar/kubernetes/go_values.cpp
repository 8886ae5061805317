#include "sidecar/kubernetes/go_values.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "lib/base/digits.h"

namespace triton::kubernetes {

namespace {

struct Unit {
    std::string_view name;
    std::int64_t nanoseconds;
};
constexpr std::array<Unit, 8> units{{{"ns", 1},
                                     {"us", 1'000},
                                     {"\u00b5s", 1'000},
                                     {"\u03bcs", 1'000},
                                     {"ms", 1'000'000},
                                     {"s", 1'000'000'000},
                                     {"m", 60'000'000'000},
                                     {"h", 3'600'000'000'000}}};

/// Takes a unit, which ends at the next digit or point.
Unit const* take_unit(std::string_view& text) {
    std::size_t length = 0;
    while (length < text.size() && text[length] != '.' && !is_digit(text[length]))
        ++length;
    std::string_view const name = text.substr(0, length);
    text.remove_prefix(length);
    for (Unit const& unit : units) {
        if (unit.name == name) return &unit;
    }
    return nullptr;
}

/// Takes one number with its unit. It cannot overflow 128 bits: at most 19 digits times a unit of 42 bits.
std::optional<__int128> take_part(std::string_view& text) {
    std::string_view whole = take_digits(text);
    std::string_view fraction;
    if (text.starts_with('.')) {
        text.remove_prefix(1);
        fraction = take_digits(text);
    }
    if (whole.empty() && fraction.empty()) return std::nullopt;
    Unit const* const unit = take_unit(text);
    whole.remove_prefix(std::min(whole.find_first_not_of('0'), whole.size()));
    if (!unit || whole.size() > 19) return std::nullopt;
    __int128 value = 0;
    for (char const digit : whole)
        value = value * 10 + (digit - '0');
    value *= unit->nanoseconds;
    __int128 scale = 1;
    __int128 part = 0;
    for (char const digit : fraction.substr(0, 18)) {  // further digits are less than a nanosecond
        part = part * 10 + (digit - '0');
        scale *= 10;
    }
    return value + part * unit->nanoseconds / scale;
}

}  // namespace

std::optional<bool> parse_go_bool(std::string_view text) {
    for (std::string_view const yes : {"1", "t", "T", "TRUE", "true", "True"}) {
        if (text == yes) return true;
    }
    for (std::string_view const no : {"0", "f", "F", "FALSE", "false", "False"}) {
        if (text == no) return false;
    }
    return std::nullopt;
}

std::optional<Duration> parse_go_duration(std::string_view text) {
    bool const is_negative = text.starts_with('-');
    if (is_negative || text.starts_with('+')) text.remove_prefix(1);
    if (text == "0") return Duration::zero();
    if (text.empty()) return std::nullopt;
    __int128 sum = 0;
    while (!text.empty()) {
        auto const part = take_part(text);
        if (!part) return std::nullopt;
        sum += *part;
        if (sum > INT64_MAX) return std::nullopt;
    }
    auto const nanoseconds = static_cast<std::int64_t>(sum);
    return Duration(is_negative ? -nanoseconds : nanoseconds);
}

std::optional<std::int64_t> parse_unix_seconds(std::string_view text) {
    if (text.starts_with('+')) {
        text.remove_prefix(1);
        if (text.starts_with('-')) return std::nullopt;
    }
    std::int64_t value = 0;
    auto const [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string node_label_variable(std::string_view key) {
    std::string name = "NODE_LABEL_";
    for (char const c : key) {
        if (c == '/' || c == '.') {
            name += '_';
        } else {
            name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
        }
    }
    return name;
}

}  // namespace triton::kubernetes
