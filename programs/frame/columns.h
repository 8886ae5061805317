#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lib/base/result.h"
#include "lib/json/text.h"
#include "lib/text/printable.h"
#include "lib/text/width.h"

namespace triton::program {

/// A column of a table that a command prints, and how its text is made of an item.
template <class... Item>
struct Column {
    std::string_view name;  ///< as -o has it
    std::string_view header;
    std::string (*text)(Item const&... item);
};

/// The columns that a list with commas names, in its order; all of them when it is empty. Errors: `invalid`: there is
/// no such column.
template <class... Item>
Result<std::vector<Column<Item...>>> choose_columns(std::span<Column<Item...> const> known, std::string_view wanted) {
    std::vector<Column<Item...>> chosen;
    if (wanted.empty()) chosen.assign(known.begin(), known.end());
    while (!wanted.empty()) {
        std::size_t const comma = std::min(wanted.find(','), wanted.size());
        std::string_view const name = wanted.substr(0, comma);
        auto const column = std::ranges::find(known, name, &Column<Item...>::name);
        if (column == known.end()) return fail("there is no column " + json::shown(name));
        chosen.push_back(*column);
        wanted.remove_prefix(std::min(comma + 1, wanted.size()));
    }
    return chosen;
}

/// The rows of a table, the first of which is the header unless that is not wanted.
template <class... Item>
class TableRows {
public:
    TableRows(std::vector<Column<Item...>> columns, bool has_header) : columns_(std::move(columns)) {
        if (!has_header) return;
        for (auto& header = rows_.emplace_back(); auto const& column : columns_)
            header.emplace_back(column.header);
    }
    void add(Item const&... item) {
        for (auto& row = rows_.emplace_back(); auto const& column : columns_)
            row.push_back(text::printable(column.text(item...)));
    }
    [[nodiscard]] std::string text() const { return text::aligned(rows_); }

private:
    std::vector<Column<Item...>> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace triton::program
