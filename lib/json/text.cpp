#include "lib/json/text.h"

#include <algorithm>
#include <cstdint>

namespace triton::json {

namespace {

/// The length of the UTF-8 sequence at the start of `text` (not empty); 0 when it is not valid.
/// Source: RFC 3629, section 4: no overlong forms, no surrogates, nothing above U+10FFFF.
std::size_t sequence_length(std::string_view text) {
    struct Row {
        std::uint8_t first_low, first_high, second_low, second_high;
        std::size_t length;
    };
    static constexpr Row rows[] = {
        {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    auto const byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    for (Row const& row : rows) {
        if (byte(0) < row.first_low || byte(0) > row.first_high) continue;
        if (text.size() < row.length) return 0;
        if (row.length > 1 && (byte(1) < row.second_low || byte(1) > row.second_high)) return 0;
        for (std::size_t i = 2; i < row.length; ++i) {
            if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
        }
        return row.length;
    }
    return 0;
}

/// Appends a character below U+0100, given by its code: unchanged if it is printable ASCII.
void append_escaped(std::string& out, char c) {
    static constexpr char digits[] = "0123456789abcdef";
    switch (c) {
        case '"': out += "\\\""; return;
        case '\\': out += "\\\\"; return;
        case '\n': out += "\\n"; return;
        case '\r': out += "\\r"; return;
        case '\t': out += "\\t"; return;
        default: break;
    }
    auto const byte = static_cast<std::uint8_t>(c);
    if (byte >= 0x20 && byte < 0x7f) {
        out += c;
        return;
    }
    out += "\\u00";
    out += digits[byte >> 4];
    out += digits[byte & 15];
}

/// Appends characters until `limit` bytes of the text are used; returns how many were.
std::size_t append_characters(std::string& out, std::string_view text, std::size_t limit) {
    std::size_t at = 0;
    while (at < text.size()) {
        std::size_t const length = sequence_length(text.substr(at));
        std::size_t const used = length == 0 ? 1 : length;
        if (at + used > limit) break;
        if (length == 0) {
            out += "\xef\xbf\xbd";
        } else if (length == 1) {
            append_escaped(out, text[at]);
        } else if (is_c1(text.substr(at, length))) {
            append_escaped(out, text[at + 1]);  // its code is the second byte
        } else {
            out += text.substr(at, length);
        }
        at += used;
    }
    return at;
}

}  // namespace

bool is_c1(std::string_view character) { return character.size() == 2 && character < "\xc2\xa0"; }

void append_json_string(std::string& out, std::string_view text) {
    out += '"';
    append_characters(out, text, text.size());
    out += '"';
}

std::string printable(std::string_view text) {
    static constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        std::size_t const length = sequence_length(text.substr(at));
        std::string_view const character = text.substr(at, std::max<std::size_t>(length, 1));
        auto const byte = static_cast<unsigned char>(character.back());  // of a control character: its code
        bool const is_control = character.size() == 1 ? byte < 0x20 || byte >= 0x7f : is_c1(character);
        if (is_control) {
            out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
        } else {
            out += character;
        }
        at += character.size();
    }
    return out;
}

std::string quoted(std::string_view text, std::size_t limit) {
    std::string out = "\"";
    if (append_characters(out, text, limit) < text.size()) out += "...";
    out += '"';
    return out;
}

std::string shown(std::string_view text) {
    auto const is_plain = [](char c) { return c > ' ' && c < '\x7f'; };
    bool const as_it_is = !text.empty() && text.size() <= 64 && std::ranges::all_of(text, is_plain);
    return as_it_is ? std::string(text) : quoted(text);
}

}  // namespace triton::json
