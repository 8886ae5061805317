#pragma once

#include <algorithm>
#include <string_view>

#include "lib/base/digits.h"

namespace triton {

/// What the fields of HTTP are made of, for its servers and clients, whatever library they use.
/// Source: RFC 9110, section 5.6.

constexpr bool is_token_character(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

/// Without spaces and tabs at its ends.
constexpr std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t";
    std::size_t const first = text.find_first_not_of(blanks);
    if (first == text.npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// But for the case of ASCII's letters.
constexpr bool are_same_letters(std::string_view left, std::string_view right) {
    constexpr auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return std::ranges::equal(left, right, {}, lower, lower);
}

}  // namespace triton
