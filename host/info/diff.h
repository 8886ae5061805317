#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/info/document.h"
#include "lib/json/writer.h"

namespace triton::info {

/// The changes of a machine: the steps from one state to the next.
struct Change {
    enum class Action : std::uint8_t { added, changed, removed };

    std::string path;  ///< "alias", "nics.0.ip": the index is that of the new state, or of the old one when it is gone
    Action action = Action::changed;
    std::string from;   ///< JSON; empty: there was none
    std::string to;     ///< JSON; empty: there is none
    std::string ident;  ///< which element of a list it is about: the mac of a NIC; empty: of none

    bool operator==(Change const&) const = default;
};

/// More changes than this of one property become one change of the whole property.
inline constexpr std::size_t most_changes = 1000;

/// The changes from `before` to `after`, as a view shows both. Elements of lists are matched by what names
/// them: NICs by mac, filesystems by target, snapshots by name, programs of a launcher by name and their processes by
/// number; other lists are whole values.
std::vector<Change> diff(Document const& before, Document const& after, View view);
/// The same of one property, by its values in JSON; empty: it had none, or has none.
std::vector<Change> diff(std::string_view property, std::string_view from, std::string_view to);

/// {path, prettyPath, action, from, to, oldValue, newValue, ident}: the names of both the design and the shipped
/// vminfod. oldValue, newValue and ident are absent when there is none; from and to are null then.
void write_change(json::Writer& out, Change const& change);

}  // namespace triton::info
