#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Text that people and terminals are shown: characters, one escape that makes it safe to print, and how wide it is.
/// What other people wrote (names, messages of programs, answers of servers) is printed by these functions only.
namespace triton::text {

/// One character of UTF-8.
struct Character {
    char32_t code = 0;
    std::size_t length = 0;  ///< in bytes; 0: the text does not begin with valid UTF-8
};

/// The character at the beginning of `text`, which is not empty.
/// Source: RFC 3629, section 4: no overlong forms, no surrogates, nothing above U+10FFFF.
Character decode(std::string_view text);

/// The length in bytes of the character at the beginning of `text`, which is not empty; 0 if that is not valid UTF-8.
std::size_t sequence_length(std::string_view text);

/// The longest beginning of `text` of at most `limit` bytes that does not end within a character.
std::string_view prefix(std::string_view text, std::size_t limit);

/// `text`, or what fits of it into `limit` bytes (at least 3) with "..." at the end.
std::string shortened(std::string_view text, std::size_t limit);

}  // namespace triton::text
