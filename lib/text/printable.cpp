#include "lib/text/printable.h"

#include <algorithm>
#include <cstdint>

#include "lib/text/utf8.h"

namespace triton::text {

namespace {

void append_hex(std::string& out, char32_t code, int digits) {
    static constexpr char names[] = "0123456789abcdef";
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
        out += names[code >> shift & 15];
}

void append_escape(std::string& out, char32_t code) {
    if (code < 0x100) return append_hex(out += "\\x", code, 2);
    if (code < 0x10000) return append_hex(out += "\\u", code, 4);
    append_hex(out += "\\U", code, 8);
}

}  // namespace

bool is_unsafe(char32_t code) {
    struct Range {
        char32_t first, last;
    };
    static constexpr Range ranges[] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x200b, 0x200f},
        {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
    };
    return std::ranges::any_of(ranges, [code](Range const& r) { return code >= r.first && code <= r.last; });
}

std::string printable(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        Character const character = decode(text);
        std::size_t const length = std::max<std::size_t>(character.length, 1);
        if (character.length == 0)
            append_escape(out, static_cast<std::uint8_t>(text.front()));
        else if (is_unsafe(character.code))
            append_escape(out, character.code);
        else
            out += text.substr(0, length);
        text.remove_prefix(length);
    }
    return out;
}

namespace {

/// The length of the control sequence or string that the text begins with; 0: it begins with none that is whole.
std::size_t control_sequence(std::string_view text) {
    if (text.size() < 2 || text[0] != '\x1b') return 0;
    if (text[1] == '[') {
        std::size_t at = 2;
        while (at < text.size() && text[at] >= 0x20 && text[at] < 0x40)
            ++at;
        return at < text.size() && text[at] >= 0x40 && text[at] < 0x7f ? at + 1 : 0;
    }
    if (text[1] == ']' || text[1] == 'P' || text[1] == '_' || text[1] == '^' || text[1] == 'X') {  // until BEL or ST
        for (std::size_t at = 2; at < text.size(); ++at) {
            if (text[at] == '\a') return at + 1;
            if (text[at] == '\x1b') return at + 1 < text.size() && text[at + 1] == '\\' ? at + 2 : 0;
        }
        return 0;
    }
    if (text[1] >= 0x20 && text[1] < 0x30) return text.size() > 2 && text[2] >= 0x30 && text[2] < 0x7f ? 3 : 0;
    return text[1] >= 0x30 && text[1] < 0x7f ? 2 : 0;
}

}  // namespace

std::string without_control_sequences(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        std::size_t const plain = std::min(text.find('\x1b'), text.size());
        out += text.substr(0, plain);
        text.remove_prefix(plain);
        if (text.empty()) break;
        std::size_t const length = control_sequence(text);
        if (length == 0) out += text.front();
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return out;
}

std::string printable(std::string_view text, std::size_t limit) { return printable(shortened(text, limit)); }

void append_json_escape(std::string& out, char32_t code) {
    if (code < 0x10000) return append_hex(out += "\\u", code, 4);
    append_hex(out += "\\u", 0xd800 + ((code - 0x10000) >> 10), 4);
    append_hex(out += "\\u", 0xdc00 + ((code - 0x10000) & 0x3ff), 4);
}

std::string printable_json(std::string_view json) {
    std::string out;
    out.reserve(json.size());
    while (!json.empty()) {
        Character const character = decode(json);
        std::size_t const length = std::max<std::size_t>(character.length, 1);
        bool const is_layout = character.code == '\n' || character.code == '\t' || character.code == '\r';
        if (character.length == 0)
            out += "\xef\xbf\xbd";
        else if (is_unsafe(character.code) && !is_layout)
            append_json_escape(out, character.code);
        else
            out += json.substr(0, length);
        json.remove_prefix(length);
    }
    return out;
}

std::string printable_ascii(std::string_view text, std::size_t limit) {
    std::string result(text.substr(0, limit));
    std::ranges::replace_if(result, [](char c) { return c < ' ' || c > '~'; }, '?');
    return result;
}

}  // namespace triton::text
