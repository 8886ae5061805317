#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace triton::json {

/// Whether a character, valid UTF-8, is one of U+0080 to U+009F: control characters, too. With U+009B some terminals
/// begin an escape sequence.
bool is_c1(std::string_view character);

/// Appends `text` as a JSON string with its quotes. Each byte that is not part of valid UTF-8 becomes U+FFFD. All
/// control characters are escaped, those that JSON would take as they are (U+007F to U+009F) too: logs are shown on
/// terminals.
void append_json_string(std::string& out, std::string_view text);

/// `text` with its control characters as \x1b, those of is_c1() too, and each byte that is not part of valid UTF-8 as
/// \xff: what a process or a file says must not steer a terminal, whatever encoding that has.
std::string printable(std::string_view text);

/// `text` as a JSON string for a message: what is longer than `limit` bytes ends in "...".
std::string quoted(std::string_view text, std::size_t limit = 64);

/// `text` as it is when it is short printable ASCII without blanks, else quoted(): for names inside a message.
std::string shown(std::string_view text);

}  // namespace triton::json
