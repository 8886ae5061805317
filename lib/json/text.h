#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lib/text/printable.h"

namespace triton::json {

using text::printable;

/// Appends `text` as a JSON string with its quotes. Each byte that is not part of valid UTF-8 becomes U+FFFD. All
/// characters that text::is_unsafe() names are escaped, because JSON lines are also read on terminals.
void append_json_string(std::string& out, std::string_view text);

/// `text` as a JSON string for a message: what is longer than `limit` bytes ends in "...".
std::string quoted(std::string_view text, std::size_t limit = 64);

/// `text` as it is when it is short printable ASCII without blanks, else quoted(): for names inside a message.
std::string shown(std::string_view text);

}  // namespace triton::json
