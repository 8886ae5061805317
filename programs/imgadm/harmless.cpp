#include "programs/imgadm/harmless.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace triton::program {

namespace {

constexpr char digits[] = "0123456789abcdef";

struct Character {
    std::uint32_t code = 0;
    std::size_t length = 0;  ///< 0: not UTF-8
};

/// Decodes the character at the beginning of a text that is not empty. Source: RFC 3629, section 4.
Character decode(std::string_view text) {
    auto const byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    if (byte(0) < 0x80) return {byte(0), 1};
    struct Row {
        std::uint8_t mask, lead;
        std::size_t length;
        std::uint32_t least;
    };
    static constexpr std::array<Row, 3> rows{{{0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}}};
    for (Row const& row : rows) {
        if ((byte(0) & row.mask) != row.lead) continue;
        if (text.size() < row.length) return {};
        std::uint32_t code = byte(0) & static_cast<std::uint8_t>(~row.mask);
        for (std::size_t i = 1; i < row.length; ++i) {
            if ((byte(i) & 0xc0) != 0x80) return {};
            code = code << 6 | (byte(i) & 0x3fU);
        }
        bool const is_surrogate = code >= 0xd800 && code <= 0xdfff;
        return code < row.least || code > 0x10ffff || is_surrogate ? Character{} : Character{code, row.length};
    }
    return {};
}

/// Whether a character is a control of ASCII or ISO 8859, changes the direction of text, is invisible, or separates
/// lines.
bool is_harmful(std::uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0xad || code == 0x061c ||
           (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2060 && code <= 0x206f) || code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb) ||
           (code >= 0xe0000 && code <= 0xe007f);
}

struct Range {
    std::uint32_t first, last;
};
/// Characters that take no column: marks that combine with the one before, and variation selectors.
constexpr std::array<Range, 12> without_width{{{0x300, 0x36f},
                                               {0x483, 0x489},
                                               {0x591, 0x5bd},
                                               {0x64b, 0x65f},
                                               {0xe34, 0xe3a},
                                               {0xe47, 0xe4e},
                                               {0x1ab0, 0x1aff},
                                               {0x1dc0, 0x1dff},
                                               {0x20d0, 0x20ff},
                                               {0xfe00, 0xfe0f},
                                               {0xfe20, 0xfe2f},
                                               {0xe0100, 0xe01ef}}};
/// Characters that take two columns of a terminal.
/// Source: Unicode 15, EastAsianWidth.txt, W and F, without gaps that are not assigned.
constexpr std::array<Range, 16> wide{{{0x1100, 0x115f},
                                      {0x2e80, 0x303e},
                                      {0x3041, 0x4dbf},
                                      {0x4e00, 0xa4cf},
                                      {0xa960, 0xa97f},
                                      {0xac00, 0xd7a3},
                                      {0xf900, 0xfaff},
                                      {0xfe10, 0xfe19},
                                      {0xfe30, 0xfe6f},
                                      {0xff01, 0xff60},
                                      {0xffe0, 0xffe6},
                                      {0x17000, 0x18cff},
                                      {0x1f300, 0x1f64f},
                                      {0x1f680, 0x1f6ff},
                                      {0x1f900, 0x1f9ff},
                                      {0x20000, 0x3fffd}}};

/// From a table of our own: wcwidth(3) answers for the locale, and imgadm has none.
std::size_t columns_of(std::uint32_t code) {
    auto const has = [code](Range const& range) { return code >= range.first && code <= range.last; };
    return std::ranges::any_of(without_width, has) ? 0 : std::ranges::any_of(wide, has) ? 2 : 1;
}

void append_hex(std::string& out, std::uint32_t code, int count) {
    for (int shift = 4 * (count - 1); shift >= 0; shift -= 4)
        out += digits[code >> shift & 15];
}

}  // namespace

std::string harmless(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        Character const character = decode(text);
        std::size_t const length = character.length == 0 ? 1 : character.length;
        std::uint32_t const code = character.length == 0 ? static_cast<std::uint8_t>(text.front()) : character.code;
        if (character.length == 0 || (code < 0x100 && is_harmful(code))) {
            append_hex(out += "\\x", code, 2);
        } else if (is_harmful(code)) {
            code < 0x10000 ? append_hex(out += "\\u", code, 4) : append_hex(out += "\\U", code, 8);
        } else if (code == '\\') {
            out += "\\\\";
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(length);
    }
    return out;
}

std::size_t width_of(std::string_view text) {
    std::size_t width = 0;
    while (!text.empty()) {
        Character const character = decode(text);
        width += character.length == 0 ? 1 : columns_of(character.code);
        text.remove_prefix(std::max<std::size_t>(character.length, 1));
    }
    return width;
}

}  // namespace triton::program
