#pragma once

#include <string_view>

#include "lib/json/table.h"
#include "lib/json/writer.h"

namespace triton::json {

/// Writes a member of an object, with its key, or nothing when there is nothing to tell.
template <class Object>
using WriteMember = void (*)(std::string_view name, Object const& object, Writer& out);

/// A row of the table engine that can also be written and taken back: one key has its reader, its writer, its shape and
/// its description in one place.
template <class Object>
struct WritableRow {
    std::string_view name = {};
    Need need = Need::optional;
    NeededWhen<Reading> needed_when = {};
    Value<Object, Reading> value = {};
    std::string_view description = {};
    WriteMember<Object> write = nullptr;
    void (*clear)(Object& object) = nullptr;  ///< nullptr where nothing is ever taken back
};

/// All members of an object that have something to tell, in the order of its table.
template <class Object>
void write_rows(Writer& out, Object const& object) {
    out.open('{');
    for (auto const& row : table(TableOf<Object, Reading>{}))
        row.write(row.name, object, out);
    out.close('}');
}

}  // namespace triton::json
