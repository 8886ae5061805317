#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace triton::text {

/// Whether a character can change what a reader believes to see: a control character of ASCII or ISO 8859 (with U+009B
/// some terminals begin an escape sequence), one that changes the direction of text, is invisible, or separates lines.
bool is_unsafe(char32_t code);

/// `text` in a form that does nothing to a terminal: each unsafe character becomes "\x1b", "\u202e" or "\U000e0041",
/// and so does each byte that is not part of valid UTF-8 ("\xff"), because a terminal might not expect UTF-8. All other
/// characters are unchanged, backslashes too: the result is to be read by people and cannot be converted back.
std::string printable(std::string_view text);

/// `text` without the sequences by which programs colour what they write, and move the cursor: "\x1b[31m" and other
/// control sequences of ECMA-48, and strings for the terminal such as its title.
std::string without_control_sequences(std::string_view text);

/// The same as printable() of shortened(text, limit).
std::string printable(std::string_view text, std::size_t limit);

/// Appends an unsafe character as JSON escapes: "\u001b", or a surrogate pair.
void append_json_escape(std::string& out, char32_t code);

/// A JSON document with its unsafe characters as JSON escapes. The document keeps its meaning and its line breaks.
std::string printable_json(std::string_view json);

/// `text` for places that take printable ASCII only (a header of HTTP, a name in a log of requests): every other byte
/// becomes '?'; at most `limit` bytes.
std::string printable_ascii(std::string_view text, std::size_t limit);

}  // namespace triton::text
