#include "lib/json/text.h"

#include <algorithm>

#include "lib/text/printable.h"
#include "lib/text/utf8.h"

namespace triton::json {

namespace {

/// Appends a character that is the beginning of `text`, escaped if JSON or a terminal needs that.
void append_character(std::string& out, text::Character character, std::string_view text) {
    switch (character.code) {
        case '"': out += "\\\""; return;
        case '\\': out += "\\\\"; return;
        case '\n': out += "\\n"; return;
        case '\r': out += "\\r"; return;
        case '\t': out += "\\t"; return;
        default: break;
    }
    if (text::is_unsafe(character.code)) return text::append_json_escape(out, character.code);
    out += text.substr(0, character.length);
}

/// Appends characters until `limit` bytes of the text are used; returns how many were.
std::size_t append_characters(std::string& out, std::string_view text, std::size_t limit) {
    std::size_t at = 0;
    while (at < text.size()) {
        std::string_view const rest = text.substr(at);
        text::Character const character = text::decode(rest);
        std::size_t const used = std::max<std::size_t>(character.length, 1);
        if (at + used > limit) break;
        if (character.length == 0)
            out += "\xef\xbf\xbd";
        else
            append_character(out, character, rest);
        at += used;
    }
    return at;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
    out += '"';
    append_characters(out, text, text.size());
    out += '"';
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
