#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace triton::text {

/// The number of columns of a terminal that a printable text takes. From a table of our own, because wcwidth(3) depends
/// on the locale, and our programs have none.
std::size_t width_of(std::string_view text);

/// The longest beginning of a printable text that takes at most that many columns.
std::string_view prefix_of_width(std::string_view text, std::size_t columns);

/// `text` followed by blanks up to a width in columns; a text that is wider already is unchanged.
std::string padded(std::string text, std::size_t width);

/// Rows of cells as lines whose columns are aligned, two blanks apart and without blanks at the end of a line. All
/// rows have the same number of cells; `least` are the least widths of the first columns.
std::string aligned(std::span<std::vector<std::string> const> rows, std::span<std::size_t const> least = {});

}  // namespace triton::text
