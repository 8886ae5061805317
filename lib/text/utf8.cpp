#include "lib/text/utf8.h"

#include <cstdint>

namespace triton::text {

namespace {

constexpr std::size_t longest_character = 4;

}  // namespace

Character decode(std::string_view text) {
    auto const byte = [text](std::size_t i) -> char32_t {
        return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0;
    };
    auto const is_tail = [](char32_t b) { return (b & 0xc0) == 0x80; };
    char32_t const first = byte(0);
    char32_t const second = byte(1);
    if (first < 0x80) return {first, 1};
    if (!is_tail(second) || first < 0xc2 || first > 0xf4) return {};
    if (first < 0xe0) return {(first & 0x1f) << 6 | (second & 0x3f), 2};
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || !is_tail(byte(2))) return {};
    char32_t const three = (second & 0x3f) << 6 | (byte(2) & 0x3f);
    if (first < 0xf0) return {(first & 0xf) << 12 | three, 3};
    if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f) || !is_tail(byte(3))) return {};
    return {(first & 7) << 18 | three << 6 | (byte(3) & 0x3f), 4};
}

std::size_t sequence_length(std::string_view text) { return decode(text).length; }

std::string_view prefix(std::string_view text, std::size_t limit) {
    if (text.size() <= limit) return text;
    for (std::size_t back = 1; back < longest_character && back <= limit; ++back) {
        std::size_t const start = limit - back;
        if ((static_cast<std::uint8_t>(text[start]) & 0xc0) == 0x80) continue;
        return text.substr(0, sequence_length(text.substr(start)) > back ? start : limit);
    }
    return text.substr(0, limit);
}

std::string shortened(std::string_view text, std::size_t limit) {
    if (text.size() <= limit) return std::string(text);
    return std::string(prefix(text, limit - 3)).append("...");
}

}  // namespace triton::text
