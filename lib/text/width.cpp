#include "lib/text/width.h"

#include <algorithm>
#include <array>

#include "lib/text/utf8.h"

namespace triton::text {

namespace {

struct Range {
    char32_t first, last;
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

std::size_t columns_of(Character character) {
    if (character.length <= 1) return 1;
    auto const has = [code = character.code](Range const& range) { return code >= range.first && code <= range.last; };
    return std::ranges::any_of(without_width, has) ? 0 : std::ranges::any_of(wide, has) ? 2 : 1;
}

}  // namespace

std::size_t width_of(std::string_view text) {
    std::size_t width = 0;
    while (!text.empty()) {
        Character const character = decode(text);
        width += columns_of(character);
        text.remove_prefix(std::max<std::size_t>(character.length, 1));
    }
    return width;
}

std::string_view prefix_of_width(std::string_view text, std::size_t columns) {
    std::size_t end = 0;
    for (std::size_t width = 0; end < text.size();) {
        Character const character = decode(text.substr(end));
        width += columns_of(character);
        if (width > columns) break;
        end += std::max<std::size_t>(character.length, 1);
    }
    return text.substr(0, end);
}

std::string padded(std::string text, std::size_t width) {
    std::size_t const used = width_of(text);
    if (used < width) text.append(width - used, ' ');
    return text;
}

std::string aligned(std::span<std::vector<std::string> const> rows, std::span<std::size_t const> least) {
    std::vector<std::size_t> widths(least.begin(), least.end());
    for (auto const& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], width_of(row[i]));
    }
    std::string out;
    for (auto const& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i)
            line += padded(row[i], widths[i]) + "  ";
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    }
    return out;
}

}  // namespace triton::text
