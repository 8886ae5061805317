#include "programs/triton-launch/libc_text.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

namespace triton::program {

namespace {

bool is_space(char letter) { return letter == ' ' || (letter >= '\t' && letter <= '\r'); }

/// Returns 36 for what is a digit of no base.
unsigned digit_of(char letter) {
    if (letter >= '0' && letter <= '9') return static_cast<unsigned>(letter - '0');
    char const lower = static_cast<char>(letter | 0x20);
    return lower >= 'a' && lower <= 'z' ? static_cast<unsigned>(lower - 'a') + 10 : 36;
}

/// Skips white space and a sign; returns whether that was a minus.
bool skip_sign(char const*& text) {
    while (is_space(*text))
        ++text;
    bool const is_minus = *text == '-';
    if (is_minus || *text == '+') ++text;
    return is_minus;
}

/// The digits and the exponent of a decimal number: value * 10^exponent.
struct Decimal {
    std::uint64_t value = 0;
    int exponent = 0;
    bool has_digits = false;
};

constexpr int most_exponent = 5000;  // far beyond every double; more digits than this are cut to it

/// Adds one digit behind the others; those that the value has no room for count in the exponent only.
void add_digit(Decimal& decimal, unsigned digit, bool is_fraction) {
    constexpr std::uint64_t room = (std::numeric_limits<std::uint64_t>::max() - 9) / 10;
    decimal.has_digits = true;
    bool const fits = decimal.value <= room;
    if (fits) decimal.value = decimal.value * 10 + digit;
    int const change = (is_fraction ? -1 : 0) + (fits ? 0 : 1);
    decimal.exponent = std::clamp(decimal.exponent + change, -most_exponent, most_exponent);
}

Decimal read_digits(char const*& text) {
    Decimal decimal;
    for (bool is_fraction = false;; ++text) {
        if (*text == '.' && !is_fraction) {
            is_fraction = true;
        } else if (unsigned const digit = digit_of(*text); digit < 10) {
            add_digit(decimal, digit, is_fraction);
        } else {
            return decimal;
        }
    }
}

/// Reads "e-12", if that is what follows.
void read_exponent(char const*& text, Decimal& decimal) {
    if (*text != 'e' && *text != 'E') return;
    char const* at = text + 1;
    bool const is_minus = *at == '-';
    if (is_minus || *at == '+') ++at;
    if (digit_of(*at) >= 10) return;
    int exponent = 0;
    for (; digit_of(*at) < 10; ++at)
        exponent = std::min(exponent * 10 + static_cast<int>(digit_of(*at)), 2 * most_exponent);
    decimal.exponent += is_minus ? -exponent : exponent;
    text = at;
}

long double power_of_ten(int exponent) {
    long double power = 1;
    for (long double factor = 10; exponent > 0; exponent >>= 1, factor *= factor) {
        if (exponent & 1) power *= factor;
    }
    return power;
}

double double_of(Decimal const& decimal) {
    constexpr std::uint64_t most_exact = std::uint64_t{1} << std::numeric_limits<double>::digits;
    constexpr int most_exact_power = 22;  // 10^22 is a double
    int const exponent = decimal.exponent;
    if (decimal.value == 0) return 0;
    if (decimal.value <= most_exact && exponent >= -most_exact_power && exponent <= most_exact_power) {
        // One operation on two exact doubles is rounded once, hence to the nearest.
        auto const value = static_cast<double>(decimal.value);
        auto const power = static_cast<double>(power_of_ten(std::abs(exponent)));
        return exponent < 0 ? value / power : value * power;
    }
    // A value has up to 20 digits, so these exponents are beyond all doubles, and the powers below within long double.
    if (exponent > 310) return std::numeric_limits<double>::infinity();
    if (exponent < -350) return 0;
    auto const value = static_cast<long double>(decimal.value);
    long double const power = power_of_ten(std::abs(exponent));
    return static_cast<double>(exponent < 0 ? value / power : value * power);
}

/// Where a formatted text goes: what does not fit is counted.
class Output {
public:
    Output(char* out, std::size_t size) : out_(out), room_(size > 0 ? size - 1 : 0), has_end_(size > 0) {}

    void add(std::string_view text) {
        std::size_t const begin = std::min(length_, room_);
        text.copy(out_ + begin, room_ - begin);
        length_ += text.size();
    }
    int end() {
        if (has_end_) out_[std::min(length_, room_)] = '\0';
        return static_cast<int>(length_);
    }

private:
    char* out_;
    std::size_t room_;
    bool has_end_;
    std::size_t length_ = 0;
};

void add_number(Output& output, std::uint64_t number, unsigned base, bool is_upper, std::size_t least_digits) {
    std::string_view const characters = is_upper ? "0123456789ABCDEF" : "0123456789abcdef";
    std::array<char, 64> digits;
    std::size_t count = 0;
    for (; number > 0 || count < std::max<std::size_t>(std::min(least_digits, digits.size()), 1); number /= base)
        digits[digits.size() - ++count] = characters[number % base];
    output.add({digits.data() + digits.size() - count, count});
}

/// Reads ".4", if that is what follows. Returns -1 for no precision.
int precision_at(char const*& pattern) {
    if (*pattern != '.') return -1;
    WholeNumber const number = read_whole(pattern + 1, 10);
    pattern = number.end;
    return static_cast<int>(std::min<std::uint64_t>(number.magnitude, 1000));
}

}  // namespace

WholeNumber read_whole(char const* text, int base) {
    WholeNumber number{.end = text};
    char const* at = text;
    number.is_negative = skip_sign(at);
    bool const has_prefix = at[0] == '0' && (at[1] == 'x' || at[1] == 'X') && digit_of(at[2]) < 16;
    if ((base == 0 || base == 16) && has_prefix) {
        at += 2;
        base = 16;
    } else if (base == 0) {
        base = *at == '0' ? 8 : 10;
    }
    for (; digit_of(*at) < static_cast<unsigned>(base); number.end = ++at) {
        bool const is_over = __builtin_mul_overflow(number.magnitude, static_cast<unsigned>(base), &number.magnitude) ||
                             __builtin_add_overflow(number.magnitude, digit_of(*at), &number.magnitude);
        number.is_too_large = number.is_too_large || is_over;
    }
    return number;
}

RealNumber read_real(char const* text) {
    char const* at = text;
    bool const is_negative = skip_sign(at);
    Decimal decimal = read_digits(at);
    if (!decimal.has_digits) return {.end = text};
    read_exponent(at, decimal);
    double const value = double_of(decimal);
    return {is_negative ? -value : value, at};
}

int format(char* out, std::size_t size, char const* pattern, std::va_list values) {
    Output output(out, size);
    while (*pattern) {
        std::size_t const plain = std::string_view(pattern).find('%');
        output.add(std::string_view(pattern).substr(0, plain));
        if (plain == std::string_view::npos) break;
        char const* const conversion = pattern + plain;
        pattern = conversion + 1;
        int const precision = precision_at(pattern);
        auto const least = static_cast<std::size_t>(std::max(precision, 0));
        switch (char const letter = *pattern; letter) {
            case 's': {
                std::string_view const text = va_arg(values, char const*);
                output.add(precision < 0 ? text : text.substr(0, least));
                break;
            }
            case 'c': {
                char const one = static_cast<char>(va_arg(values, int));
                output.add({&one, 1});
                break;
            }
            case 'd': {
                std::int64_t const number = va_arg(values, int);
                if (number < 0) output.add("-");
                add_number(output, static_cast<std::uint64_t>(number < 0 ? -number : number), 10, false, least);
                break;
            }
            case 'u': add_number(output, va_arg(values, unsigned), 10, false, least); break;
            case 'x':
            case 'X': add_number(output, va_arg(values, unsigned), 16, letter == 'X', least); break;
            case '%': output.add("%"); break;
            default: output.add(conversion); return output.end();
        }
        ++pattern;
    }
    return output.end();
}

}  // namespace triton::program
