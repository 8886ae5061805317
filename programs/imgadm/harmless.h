#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace triton::program {

/// Text that others wrote, so that it does nothing to a terminal: control characters, characters that change the
/// direction of text, and bytes that are not UTF-8 become "\x1b", "\u202e", "\xff"; a backslash is doubled where such
/// a text could otherwise be taken for one of these.
std::string harmless(std::string_view text);

/// How many columns of a terminal such a text takes.
std::size_t width_of(std::string_view text);

}  // namespace triton::program
