#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>

/// What libc_parts.cpp makes the C library's functions of: numbers and text without locales and wide characters.
namespace triton::program {

/// The number at the front of a text, as strtoull(3) has it: white space, a sign, a prefix for the bases 0 and 16.
struct WholeNumber {
    std::uint64_t magnitude = 0;
    bool is_negative = false;
    bool is_too_large = false;  ///< for 64 bits; `end` is behind all its digits
    char const* end = nullptr;  ///< the text itself: there is no number
};
WholeNumber read_whole(char const* text, int base);

/// The decimal number at the front of a text, as strtod(3) has it. The nearest double for numbers of up to 15 digits
/// with exponents of up to 22, and at most one place beside it for others. Infinity: too large.
struct RealNumber {
    double value = 0;
    char const* end = nullptr;  ///< the text itself: there is no number
};
RealNumber read_real(char const* text);

/// The part of snprintf(3) that the libraries of PID 1 use: %s, %c, %d, %u, %x and %X, with a precision, and %%.
/// Anything else is written as it is. Returns: how many bytes the whole text has, which can be more than fit.
int format(char* out, std::size_t size, char const* pattern, std::va_list values);

}  // namespace triton::program
