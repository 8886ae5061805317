#pragma once

#include <cstddef>
#include <string_view>

namespace triton {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Of a hexadecimal digit; -1: it is none.
constexpr int hex_value(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/// Takes the decimal digits at the beginning off the text and returns them; empty: there are none.
inline std::string_view take_digits(std::string_view& text) {
    std::size_t length = 0;
    while (length < text.size() && is_digit(text[length]))
        ++length;
    std::string_view const digits = text.substr(0, length);
    text.remove_prefix(length);
    return digits;
}

}  // namespace triton
