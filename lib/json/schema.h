#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/json/table.h"
#include "lib/json/writer.h"

namespace triton::json {

/// What a JSON Schema (draft 2020-12) and a reference page say of one key.
struct DescribedKey {
    std::string_view name;
    Need need = Need::optional;
    std::string need_text;  ///< "optional", "required"
    Shape const* shape = nullptr;
    std::string_view description;
    std::string extra = {};  ///< the cell of a column that only this table has
};

template <class Object, class Context>
std::vector<DescribedKey> described_keys() {
    std::vector<DescribedKey> keys;
    for (auto const& row : table(TableOf<Object, Context>{})) {
        std::string_view const need = row.need == Need::required     ? "required"
                                      : row.needed_when.text.empty() ? "optional"
                                                                     : row.needed_when.text;
        keys.push_back({row.name, row.need, std::string(need), row.value.shape, row.description});
    }
    return keys;
}

/// The content of an object, without its type: a key that may hold something else also refers to it. Into an
/// open object: "additionalProperties", "properties" and, if there are such keys, "required".
void write_properties(Writer& out, std::span<DescribedKey const> keys);

/// Appends a section of a reference page in Markdown: a table of the keys. `extra`: the title of the further column.
void append_section(std::string& out, std::string_view title, std::span<DescribedKey const> keys,
                    std::string_view introduction = {}, std::string_view extra = {});

/// The same of a manual page, as scdoc(5) takes it: an entry for each key.
void append_manual_section(std::string& out, std::string_view title, std::span<DescribedKey const> keys,
                           std::string_view introduction = {});

}  // namespace triton::json
