#include "lib/base/size.h"

#include <array>

#include "lib/base/digits.h"

namespace triton {

namespace {

struct SizeUnit {
    std::string_view name;
    std::uint64_t bytes;
};
constexpr std::array<SizeUnit, 9> size_units{{{"Ti", 1ULL << 40},
                                              {"T", 1'000'000'000'000},
                                              {"Gi", 1ULL << 30},
                                              {"G", 1'000'000'000},
                                              {"Mi", 1ULL << 20},
                                              {"M", 1'000'000},
                                              {"Ki", 1ULL << 10},
                                              {"k", 1'000},
                                              {"", 1}}};

std::optional<std::uint64_t> unit_of(std::string_view name) {
    for (SizeUnit const& unit : size_units) {
        if (unit.name == name) return unit.bytes;
    }
    return std::nullopt;
}

/// Returns 0.fraction times unit, cut off; digits beyond the 13th are less than a byte of the largest unit.
std::uint64_t part_of(std::string_view fraction, std::uint64_t unit) {
    constexpr std::size_t kept = 13;
    __extension__ using Wide = unsigned __int128;
    Wide digits = 0;
    Wide scale = 1;
    for (char const c : fraction.substr(0, kept)) {
        digits = digits * 10 + static_cast<unsigned>(c - '0');
        scale *= 10;
    }
    return static_cast<std::uint64_t>(digits * unit / scale);
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
    std::string_view const whole = take_digits(text);
    if (whole.empty()) return std::nullopt;
    std::string_view fraction;
    if (text.starts_with('.')) {
        text.remove_prefix(1);
        fraction = take_digits(text);
        if (fraction.empty()) return std::nullopt;
    }
    auto const unit = unit_of(text);
    if (!unit) return std::nullopt;
    std::uint64_t sum = 0;
    for (char const c : whole) {
        if (__builtin_mul_overflow(sum, std::uint64_t{10}, &sum)) return std::nullopt;
        if (__builtin_add_overflow(sum, static_cast<std::uint64_t>(c - '0'), &sum)) return std::nullopt;
    }
    if (__builtin_mul_overflow(sum, *unit, &sum)) return std::nullopt;
    if (__builtin_add_overflow(sum, part_of(fraction, *unit), &sum)) return std::nullopt;
    return sum;
}

}  // namespace triton
